#include <atomic>
#include <limits>
#include <string>

#include "contributions.h"
#include "fuser.h"
#include "operations.h"

namespace scar_gpu {

namespace {

constexpr int64_t LARGEST_ID = int64_t{1} << 62;

// The lists of all queries, and the ranks of their entries.
struct Lists {
  Lists(const std::vector<Tensor>& rankings, const std::optional<std::vector<Tensor>>& given);
  // IndexError for the first id or rank that is out of range.
  void check_values(int64_t n_ranks) const;

  std::vector<std::string> names;
  std::vector<Ids> ids, ranks;  // no ranks: positions count from 1
  std::vector<int64_t> lengths;
  int64_t n_queries = 0, n_entries = 0, longest = 0;
};

Lists::Lists(const std::vector<Tensor>& rankings, const std::optional<std::vector<Tensor>>& given) {
  check(!rankings.empty(), "rankings must have at least one list, got none");
  names.reserve(2 * rankings.size());  // the views keep pointers to them
  for (size_t l = 0; l < rankings.size(); ++l) {
    names.push_back("rankings[" + std::to_string(l) + "]");
    ids.emplace_back(rankings[l], names.back().c_str());
    if (l == 0) n_queries = ids[0].size(0);
    check(ids[l].size(0) == n_queries, names.back(), " must have ", n_queries,
          " rows like rankings[0], got ", ids[l].size(0));
    lengths.push_back(ids[l].size(1));
    n_entries += lengths[l];
    longest = std::max(longest, lengths[l]);
  }
  if (!given) return;
  check(given->size() == rankings.size(), "ranks must have one tensor per list (", rankings.size(),
        "), got ", given->size());
  for (size_t l = 0; l < given->size(); ++l) {
    names.push_back("ranks[" + std::to_string(l) + "]");
    ranks.emplace_back((*given)[l], names.back().c_str());
    check(ranks[l].size(0) == n_queries && ranks[l].size(1) == lengths[l], names.back(),
          " must have shape [", n_queries, ", ", lengths[l], "], got [", ranks[l].size(0), ", ",
          ranks[l].size(1), "]");
  }
}

void Lists::check_values(int64_t n_ranks) const {
  for (const Ids& list : ids) list.check_range(LARGEST_ID + 1);
  for (size_t l = 0; l < ranks.size(); ++l)
    for (int64_t b = 0; b < n_queries; ++b)
      for (int64_t j = 0; j < lengths[l]; ++j)
        check<std::out_of_range>(
            ids[l](b, j) == -1 || (ranks[l](b, j) >= 1 && ranks[l](b, j) <= n_ranks), "ranks[", l,
            "][", b, ", ", j, "] must be in [1, ", n_ranks, "], got ", ranks[l](b, j));
}

// The results of all queries.
struct Results {
  Results(int64_t n_queries, int64_t width, int64_t n_lists, bool has_details);
  void write(int64_t b, Fuser& fuser, const Contributions& contributions) const;

  int64_t width, n_lists;
  bool has_details;
  std::vector<Tensor> tensors;
  int64_t* ids;
  float* scores;
  int32_t *lengths, *best_list = nullptr, *best_rank = nullptr, *ranks = nullptr;
};

Results::Results(int64_t n_queries, int64_t width, int64_t n_lists, bool has_details)
    : width(width), n_lists(n_lists), has_details(has_details) {
  tensors.push_back(allocate({n_queries, width}, ScalarType::Long));
  tensors.push_back(allocate({n_queries, width}, ScalarType::Float));
  tensors.push_back(allocate({n_queries}, ScalarType::Int));
  ids = data<int64_t>(tensors[0]);
  scores = data<float>(tensors[1]);
  lengths = data<int32_t>(tensors[2]);
  if (!has_details) return;
  tensors.push_back(allocate({n_queries, width}, ScalarType::Int));
  tensors.push_back(allocate({n_queries, width}, ScalarType::Int));
  tensors.push_back(allocate({n_queries, width, n_lists}, ScalarType::Int));
  best_list = data<int32_t>(tensors[3]);
  best_rank = data<int32_t>(tensors[4]);
  ranks = data<int32_t>(tensors[5]);
}

void Results::write(int64_t b, Fuser& fuser, const Contributions& contributions) const {
  const int64_t n = std::min(width, fuser.count());
  fuser.sort(n);
  int64_t at = b * width;
  for (int64_t t = 0; t < n; ++t, ++at) {
    const Document& document = fuser.document(t);
    ids[at] = document.id;
    scores[at] = contributions.score(document.sum);
    if (!has_details) continue;
    best_list[at] = document.best_list;
    best_rank[at] = document.best_rank;
    std::copy_n(fuser.ranks(t), n_lists, ranks + at * n_lists);
  }
  lengths[b] = static_cast<int32_t>(n);
  std::fill_n(ids + at, width - n, -1);
  std::fill_n(scores + at, width - n, -std::numeric_limits<float>::infinity());
  if (!has_details) return;
  std::fill_n(best_list + at, width - n, -1);
  std::fill_n(best_rank + at, width - n, -1);
  std::fill_n(ranks + at * n_lists, (width - n) * n_lists, 0);
}

// Adds the entries of one list of query b; false when one of them is out of range.
bool add_list(int64_t list, int64_t b, const Lists& lists, const Contributions& contributions,
              Fuser& fuser, std::vector<int64_t>& row) {
  const int64_t length = lists.lengths[list], n_ranks = contributions.n_ranks();
  const Ids& ids = lists.ids[list];
  const Ids* given = lists.ranks.empty() ? nullptr : &lists.ranks[list];
  const int64_t* of_list = contributions.of_list(list);
  const bool is_used = contributions.is_used(list);
  for (int64_t j = 0; j < length; ++j) row[j] = ids(b, j);
  for (int64_t j = 0; j < length; ++j) {
    const int64_t id = row[j];
    if (id == -1) continue;
    const int64_t rank = given ? (*given)(b, j) : j + 1;
    if (id < 0 || id > LARGEST_ID || rank < 1 || rank > n_ranks) return false;
    if (is_used) fuser.add(list, id, rank, of_list);
  }
  return true;
}

}  // namespace

std::vector<Tensor> rank_fusion(std::vector<Tensor> rankings,
                                std::optional<std::vector<Tensor>> ranks, double k,
                                std::optional<std::vector<double>> weights,
                                OptionalTensor contributions, std::optional<int64_t> top_n,
                                bool sums_duplicates, bool has_details) {
  const Lists lists(rankings, ranks);
  const auto n_lists = static_cast<int64_t>(rankings.size());
  int64_t n_ranks = lists.longest;
  if (contributions) {
    const View<double, 2> table(*contributions, "contributions");
    check(table.size(0) == n_lists && (ranks || table.size(1) >= lists.longest),
          "contributions must have shape [", n_lists, ", R >= ", ranks ? 0 : lists.longest,
          "], got [", table.size(0), ", ", table.size(1), "]");
    n_ranks = table.size(1);
  }
  check(!top_n || *top_n >= 1, "top_n must be >= 1, got ", top_n ? *top_n : 0);
  const Contributions table(n_lists, n_ranks, k, weights, contributions);
  if (sums_duplicates) table.check_sums(lists.lengths, ranks.has_value());

  Results results(lists.n_queries, top_n ? *top_n : lists.n_entries, n_lists, has_details);
  std::atomic<bool> is_valid = true;
  const int64_t grain = std::max<int64_t>(1, 4096 / (lists.n_entries + 1));
  parallel_for(lists.n_queries, grain, [&](int64_t begin, int64_t end) {
    Fuser fuser(lists.n_entries, has_details ? n_lists : 0, sums_duplicates);
    std::vector<int64_t> row(lists.longest);
    for (int64_t b = begin; b < end && is_valid; ++b) {
      fuser.begin();
      for (int64_t list = 0; list < n_lists; ++list)
        if (!add_list(list, b, lists, table, fuser, row)) is_valid = false;
      results.write(b, fuser, table);
    }
  });
  if (!is_valid) lists.check_values(n_ranks);
  return results.tensors;
}

}  // namespace scar_gpu
