// The work of `corpus_masks`, shared out among threads.

#include "corpus_judge.h"

#include <atomic>
#include <cmath>

#include "corpus_worker.h"
#include "product.h"

namespace scar_gpu {

namespace {

constexpr float NOT_A_NUMBER = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t QUERY_BYTES = 64 << 20, MAX_QUERIES = 4096;
constexpr int64_t MAX_GROUP = 1024;  // queries of a product
// Up to here reading the rows is what costs, and no product is faster.
constexpr int64_t CANONICAL_QUERIES = 8;

int64_t block_size(const Tensor& queries) {
  check(queries.dim() == 2, "queries must have 2 dimensions, got ", queries.dim());
  const int64_t most =
      std::min(QUERY_BYTES / QueryBlock::bytes_per_query(queries.size(1)), MAX_QUERIES);
  return std::clamp<int64_t>(queries.size(0), 1, std::max<int64_t>(most, 1));
}

}  // namespace

CorpusJudge::CorpusJudge(const Tensor& queries, const Tensor& embeddings, const Tensor& continuity,
                         double lam, double gamma, bool contiguous,
                         const std::optional<Tensor>& row_scale)
    : rows_(embeddings, "embeddings"),
      continuity_(continuity, "continuity"),
      row_scale_(optional_view<float, 1>(row_scale, "row_scale")),
      lam_(finite_float("lam", lam)),
      gamma_(finite_float("gamma", gamma)),
      contiguous_(contiguous),
      n_queries_(queries.size(0)),
      window_(continuity_.size(0)),
      halo_(std::min(window_, rows_.count())),
      block_(block_size(queries)),
      words_((rows_.count() + 31) / 32),
      queries_(queries, block_) {
  check(lam >= 0, "lam must be >= 0, got ", lam);
  check(queries.size(1) == rows_.dim(), "queries and embeddings must have one dimension");
  check(continuity_.size(1) == rows_.count(), "continuity must have a column for every chunk");
  check(!row_scale_ || row_scale_->size(0) == rows_.count(),
        "row_scale must have one entry per chunk");
}

void CorpusJudge::run(uint32_t* bits, float* relevance) {
  for (first_ = 0; first_ < n_queries_; first_ += block_) {
    const int64_t count = std::min(block_, n_queries_ - first_);
    queries_.load(first_, count);
    // A relevance that is returned is canonical.
    const bool is_exact = relevance != nullptr || count <= CANONICAL_QUERIES || !product_is_exact();
    const int64_t n_groups = (count + MAX_GROUP - 1) / MAX_GROUP;
    const int64_t group = (count + n_groups - 1) / n_groups;
    const int64_t n_threads = torch::stable::get_num_threads();
    const int64_t size = Worker::tile_size(*this, group, n_threads);
    const int64_t n_items = (rows_.count() + size - 1) / size * n_groups;
    // Threads take items as they get to them, so that none waits for a slower one.
    std::atomic<int64_t> next = 0;
    parallel_for(std::min(n_threads, n_items), 1, [&](int64_t, int64_t) {
      Worker worker(*this, group, n_threads);
      for (int64_t item; (item = next.fetch_add(1, std::memory_order_relaxed)) < n_items;) {
        const int64_t begin = item / n_groups * size, low = item % n_groups * group;
        const Range tile{begin, std::min(begin + size, rows_.count())};
        const Range some{low, std::min(low + group, count)};
        if (!worker.run(tile, some, is_exact, {bits, relevance}))
          worker.run(tile, some, true, {bits, relevance});
      }
    });
  }
}

float CorpusJudge::cohesion(int64_t row, int64_t offset) const {
  const int64_t left = std::min(row, row + offset);
  if (left < 0 || std::max(row, row + offset) >= rows_.count()) return NOT_A_NUMBER;
  return continuity_(std::abs(offset) - 1, left);
}

}  // namespace scar_gpu
