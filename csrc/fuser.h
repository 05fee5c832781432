// The documents of one query's lists, each once, with the sum of its contributions, in order.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "hash.h"

namespace scar_gpu {

struct Document {
  int64_t id, sum;
  int32_t best_rank, best_list;
  int32_t list, rank;  // where it was seen last
  // The total order of results.
  bool operator<(const Document& other) const {
    if (sum != other.sum) return sum > other.sum;
    if (best_rank != other.best_rank) return best_rank < other.best_rank;
    if (best_list != other.best_list) return best_list < other.best_list;
    return id < other.id;
  }
};

// One thread's working memory, used for one query after the other.
class Fuser {
 public:
  // The most entries of a query, and its lists where the ranks in them are wanted (else 0).
  Fuser(int64_t n_entries, int64_t n_lists, bool sums_duplicates)
      : n_lists_(n_lists),
        sums_duplicates_(sums_duplicates),
        slots_(std::bit_ceil(static_cast<uint64_t>(2 * n_entries + 2))),
        ranks_(n_entries * n_lists) {
    documents_.reserve(n_entries);
  }

  void begin() {
    std::fill(slots_.begin(), slots_.end(), -1);
    documents_.clear();
  }

  // Adds an entry; lists come one after the other. contributions[r - 1] belongs to rank r.
  void add(int64_t list, int64_t id, int64_t rank, const int64_t* contributions) {
    Document& document = find(id);
    const bool is_repeat = document.list == list;
    const bool is_better = !is_repeat || rank < document.rank;
    if (is_better || sums_duplicates_) document.sum += contributions[rank - 1];
    if (!is_better) return;
    if (is_repeat && !sums_duplicates_) document.sum -= contributions[document.rank - 1];
    document.list = static_cast<int32_t>(list);
    document.rank = static_cast<int32_t>(rank);
    if (rank < document.best_rank) {
      document.best_rank = static_cast<int32_t>(rank);
      document.best_list = static_cast<int32_t>(list);
    }
    if (n_lists_)
      ranks_[(&document - documents_.data()) * n_lists_ + list] = static_cast<int32_t>(rank);
  }

  int64_t count() const { return static_cast<int64_t>(documents_.size()); }

  // Puts the first n documents into their order: into buckets of equal width by sum, then the
  // buckets one by one. Linear in the number of documents unless most sums are nearly the same.
  void sort(int64_t n) {
    int64_t highest = 0, lowest = std::numeric_limits<int64_t>::max();
    for (const Document& document : documents_) {
      highest = std::max(highest, document.sum);
      lowest = std::min(lowest, document.sum);
    }
    const int range_bits = std::bit_width(static_cast<uint64_t>(count() ? highest - lowest : 0));
    const int bucket_bits = std::bit_width(static_cast<uint64_t>(count()));
    const int shift = std::max(0, range_bits - bucket_bits);
    ends_.assign((int64_t{1} << bucket_bits) + 1, 0);
    for (const Document& document : documents_) ++ends_[((highest - document.sum) >> shift) + 1];
    for (size_t i = 1; i < ends_.size(); ++i) ends_[i] += ends_[i - 1];
    // So far ends_[i] is where bucket i begins; filling the bucket moves it to the end.
    order_.resize(documents_.size());
    for (int64_t d = 0; d < count(); ++d) {
      const int64_t sum = documents_[d].sum;
      order_[ends_[(highest - sum) >> shift]++] = {sum, static_cast<int32_t>(d)};
    }
    const auto comes_before = [&](const Place& a, const Place& c) {
      return a.sum != c.sum ? a.sum > c.sum : documents_[a.document] < documents_[c.document];
    };
    int32_t begin = 0;
    for (size_t i = 0; i < ends_.size() && begin < n; begin = ends_[i++]) {
      const int32_t size = ends_[i] - begin;
      if (size == 2 && comes_before(order_[begin + 1], order_[begin]))
        std::swap(order_[begin], order_[begin + 1]);
      if (size > 2) std::sort(order_.begin() + begin, order_.begin() + ends_[i], comes_before);
    }
  }

  // The document in place t of the order, and its ranks [n_lists], 0 where absent.
  const Document& document(int64_t t) const { return documents_[order_[t].document]; }
  const int32_t* ranks(int64_t t) const { return ranks_.data() + order_[t].document * n_lists_; }

 private:
  struct Place {
    int64_t sum;
    int32_t document;
  };
  // The document of this id, made with a sum of 0 when it is new.
  Document& find(int64_t id) {
    const uint64_t last = slots_.size() - 1;
    uint64_t at = hash_of_id(id) & last;
    while (slots_[at] >= 0) {
      if (documents_[slots_[at]].id == id) return documents_[slots_[at]];
      at = (at + 1) & last;
    }
    slots_[at] = static_cast<int32_t>(documents_.size());
    if (n_lists_) std::fill_n(ranks_.begin() + count() * n_lists_, n_lists_, 0);
    return documents_.emplace_back(Document{id, 0, std::numeric_limits<int32_t>::max(), -1, -1, 0});
  }

  int64_t n_lists_;
  bool sums_duplicates_;
  std::vector<int32_t> slots_;  // a hash table of places in documents_, -1 where free
  std::vector<Document> documents_;
  std::vector<int32_t> ranks_;  // [document, list]
  std::vector<Place> order_;
  std::vector<int32_t> ends_;
};

}  // namespace scar_gpu
