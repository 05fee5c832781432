#include <algorithm>
#include <limits>
#include <vector>

#include "operations.h"
#include "queries.h"

namespace scar_gpu {

namespace {

struct Hit {
  float score;
  int64_t id;
  // The total order of results: score descending, then smaller id.
  bool operator<(const Hit& other) const {
    return score > other.score || (score == other.score && id < other.id);
  }
};

// The k best hits offered so far, the worst of them on top.
class Best {
 public:
  explicit Best(int64_t k) : k_(k) {}
  void offer(Hit hit) {
    if (!(hit.score == hit.score)) return;  // NaN is never a result
    if (static_cast<int64_t>(heap_.size()) == k_) {
      if (!(hit < heap_.front())) return;
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.back() = hit;
    } else {
      heap_.push_back(hit);
    }
    std::push_heap(heap_.begin(), heap_.end());
  }
  void offer(const Best& others) {
    for (const Hit& hit : others.heap_) offer(hit);
  }
  void write(int64_t* ids, float* scores) {
    std::sort_heap(heap_.begin(), heap_.end());
    const int64_t n = static_cast<int64_t>(heap_.size());
    for (int64_t i = 0; i < k_; ++i) {
      ids[i] = i < n ? heap_[i].id : -1;
      scores[i] = i < n ? heap_[i].score : -std::numeric_limits<float>::infinity();
    }
  }

 private:
  int64_t k_;
  std::vector<Hit> heap_;
};

constexpr int64_t QUERIES = 64;          // that share a pass over the rows
constexpr int64_t TILE_BYTES = 1 << 18;  // rows that stay in cache for all of them

}  // namespace

std::tuple<Tensor, Tensor> search(const Tensor& queries, const Tensor& embeddings, int64_t k,
                                  OptionalTensor row_scale, OptionalTensor row_ranges) {
  const Rows rows(embeddings, "embeddings");
  const auto scale = optional_view<float, 1>(row_scale, "row_scale");
  const auto ranges = optional_view<int64_t, 2>(row_ranges, "row_ranges");
  const int64_t n_queries = queries.size(0), n_chunks = rows.count();
  check(queries.size(1) == rows.dim(), "queries and embeddings must have one dimension");
  check(!scale || scale->size(0) == n_chunks, "row_scale must have one entry per chunk");
  check(k >= 1, "k must be >= 1, got ", k);
  check(!ranges || (ranges->size(0) == n_queries && ranges->size(1) == 2),
        "row_ranges must be [B, 2]");
  for (int64_t b = 0; ranges && b < n_queries; ++b) {
    const int64_t low = (*ranges)(b, 0), high = (*ranges)(b, 1);
    check<std::out_of_range>(0 <= low && low <= high && high <= n_chunks, "row_ranges[", b,
                             "] must satisfy 0 <= start <= end <= ", n_chunks, ", got [", low, ", ",
                             high, ")");
  }

  const Tensor ids = allocate(queries, {n_queries, k}, ScalarType::Long);
  const Tensor scores = allocate(queries, {n_queries, k}, ScalarType::Float);
  QueryBlock block(queries, std::min(QUERIES, n_queries));
  const int64_t tile =
      std::max<int64_t>(1, TILE_BYTES / std::max<int64_t>(1, std::abs(rows.row_bytes())));
  for (int64_t first = 0; first < n_queries; first += QUERIES) {
    const int64_t count = std::min(QUERIES, n_queries - first);
    block.load(first, count);
    // Each part of the rows has its own k best per query; the total order makes merging exact.
    const int64_t parts = std::clamp<int64_t>(n_chunks / tile, 1, torch::stable::get_num_threads());
    std::vector<Best> best(parts * count, Best(k));
    parallel_for(parts, 1, [&](int64_t from, int64_t to) {
      std::vector<float> dots(tile);
      for (int64_t part = from; part < to; ++part)
        for (int64_t begin = n_chunks * part / parts; begin < n_chunks * (part + 1) / parts;
             begin += tile) {
          const int64_t end = std::min(begin + tile, n_chunks * (part + 1) / parts);
          for (int64_t i = 0; i < count; ++i) {
            const int64_t low = ranges ? std::max(begin, (*ranges)(first + i, 0)) : begin;
            const int64_t high = ranges ? std::min(end, (*ranges)(first + i, 1)) : end;
            if (low >= high) continue;
            rows.dot(block.vector(i), low, high - low, dots.data());
            for (int64_t row = low; row < high; ++row)
              best[part * count + i].offer(
                  {block.cosine(i, dots[row - low], scale ? (*scale)(row) : 1.0f), row});
          }
        }
    });
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t part = 1; part < parts; ++part) best[i].offer(best[part * count + i]);
      best[i].write(data<int64_t>(ids) + (first + i) * k, data<float>(scores) + (first + i) * k);
    }
  }
  return {ids, scores};
}

}  // namespace scar_gpu
