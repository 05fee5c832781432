// Exact top-k: streamed for few queries, by a filtering matrix product for many.

#include "searcher.h"

#include <cmath>

#include "product.h"
#include "search_filter.h"

namespace scar_gpu {

namespace {

// Room for a block of queries with their results so far.
constexpr int64_t QUERY_BYTES = 64 << 20;
// More queries at a time leave the cache with their results.
constexpr int64_t MAX_QUERIES = 4096;
// Rows that are worth a thread.
constexpr int64_t MIN_PART = 4096;
// Rows that stay in the second-level cache while every query reads them.
constexpr int64_t STREAM_TILE_BYTES = 1 << 18;
// Up to here reading the rows is what costs, and no product is faster.
constexpr int64_t STREAM_QUERIES = 8;
// What a canonical score costs in units of one entry of a matrix product.
constexpr int64_t STREAM_COST = 6;

int64_t block_size(const Tensor& queries, int64_t k) {
  check(queries.dim() == 2, "queries must have 2 dimensions, got ", queries.dim());
  const int64_t bytes = QueryBlock::bytes_per_query(queries.size(1)) + k * sizeof(Hit) + 64;
  const int64_t most = std::min(QUERY_BYTES / bytes, MAX_QUERIES);
  return std::clamp<int64_t>(most, 1, std::max<int64_t>(queries.size(0), 1));
}

}  // namespace

Searcher::Searcher(const Tensor& queries, const Tensor& embeddings, int64_t k,
                   const std::optional<Tensor>& row_scale, const std::optional<Tensor>& row_ranges,
                   const std::optional<Tensor>& min_scores)
    : rows_(embeddings, "embeddings"),
      row_scale_(optional_view<float, 1>(row_scale, "row_scale")),
      row_ranges_(optional_view<int64_t, 2>(row_ranges, "row_ranges")),
      min_scores_(optional_view<float, 1>(min_scores, "min_scores")),
      k_(k),
      n_queries_(queries.size(0)),
      block_(block_size(queries, k)),
      queries_(queries, block_) {
  const int64_t n_chunks = rows_.count();
  check(queries.size(1) == rows_.dim(), "queries and embeddings must have one dimension");
  check(!row_scale_ || row_scale_->size(0) == n_chunks, "row_scale must have one entry per chunk");
  check(k >= 1, "k must be >= 1, got ", k);
  check(k < int64_t{1} << 31, "k must be below 2^31, got ", k);
  check(!min_scores_ || min_scores_->size(0) == n_queries_,
        "min_scores must have one entry per query");
  if (!row_ranges_) return;
  check(row_ranges_->size(0) == n_queries_ && row_ranges_->size(1) == 2,
        "row_ranges must be [B, 2]");
  for (int64_t b = 0; b < n_queries_; ++b) {
    const int64_t begin = (*row_ranges_)(b, 0), end = (*row_ranges_)(b, 1);
    check<std::out_of_range>(0 <= begin && begin <= end && end <= n_chunks, "row_ranges[", b,
                             "] must satisfy 0 <= start <= end <= ", n_chunks, ", got [", begin,
                             ", ", end, ")");
  }
}

void Searcher::run(int64_t* ids, float* scores) {
  for (first_ = 0; first_ < n_queries_; first_ += block_) {
    const int64_t count = std::min(block_, n_queries_ - first_);
    queries_.load(first_, count);
    best_.assign(count, Best(k_));
    int64_t pairs = 0;
    for (int64_t i = 0; i < count; ++i) {
      const Range range = allowed(i, 0, rows_.count());
      pairs += range.end - range.begin;
    }
    const bool product_pays =
        count > STREAM_QUERIES && pairs * STREAM_COST > count * rows_.count() && product_is_exact();
    if (!product_pays || !filter(count)) stream(count);
    for (int64_t i = 0; i < count; ++i)
      best_[i].write(ids + (first_ + i) * k_, scores + (first_ + i) * k_);
  }
}

// The part of [begin, end) that query `first_ + i` may return.
Searcher::Range Searcher::allowed(int64_t i, int64_t begin, int64_t end) const {
  if (!row_ranges_) return {begin, end};
  const int64_t low = std::max(begin, (*row_ranges_)(first_ + i, 0));
  return {low, std::max(low, std::min(end, (*row_ranges_)(first_ + i, 1)))};
}

// Canonical scores of every query with every row it may return.
void Searcher::stream(int64_t count) {
  const int64_t n_chunks = rows_.count();
  const int64_t tile =
      std::max<int64_t>(1, STREAM_TILE_BYTES / std::max<int64_t>(1, rows_.row_bytes()));
  // Each part of the rows has its own k best per query; the total order makes merging exact.
  const int64_t room = QUERY_BYTES / (count * k_ * static_cast<int64_t>(sizeof(Hit)));
  const int64_t parts =
      std::clamp<int64_t>(std::min(n_chunks / tile, room), 1, torch::stable::get_num_threads());
  std::vector<Best> best(parts * count, Best(k_));
  parallel_for(parts, 1, [&](int64_t from, int64_t to) {
    std::vector<float> dots(tile);
    for (int64_t part = from; part < to; ++part) {
      const int64_t last = n_chunks * (part + 1) / parts;
      for (int64_t begin = n_chunks * part / parts; begin < last; begin += tile)
        for (int64_t i = 0; i < count; ++i) {
          const Range range = allowed(i, begin, std::min(begin + tile, last));
          rows_.dot(queries_.vector(i), range.begin, range.end - range.begin, dots.data());
          for (int64_t row = range.begin; row < range.end; ++row)
            offer(i, {queries_.cosine(i, dots[row - range.begin], scale(row)), row},
                  best[part * count + i]);
        }
    }
  });
  for (int64_t i = 0; i < count; ++i)
    for (int64_t part = 0; part < parts; ++part) best_[i].offer(best[part * count + i]);
}

// A matrix product decides which scores are worth computing. False when a product is seen to be
// farther from its canonical score than rows of unit length explain; then nothing is kept.
bool Searcher::filter(int64_t count) {
  // Threads take slices of the queries, and tiles of rows of a slice as they get to them, so that
  // none waits for a slower one; the products stay in the cache of the thread that reads them.
  const int64_t n_threads = torch::stable::get_num_threads();
  const int64_t slices = std::min(n_threads, (count + Filter::GROUP - 1) / Filter::GROUP);
  const int64_t most = std::min(rows_.count() / MIN_PART,
                                QUERY_BYTES / (count * k_ * static_cast<int64_t>(sizeof(Hit))));
  const int64_t parts = std::clamp<int64_t>(n_threads / slices, 1, std::max<int64_t>(most, 1));
  // Each part has its own k best per query; the total order makes merging exact.
  best_.assign(parts * count, Best(k_));
  floors_ = std::vector<std::atomic<float>>(count);
  for (std::atomic<float>& floor : floors_) floor.store(-INF, std::memory_order_relaxed);
  std::vector<std::atomic<int64_t>> next_rows(slices);
  std::atomic<bool> is_exact = true;
  parallel_for(parts * slices, 1, [&](int64_t from, int64_t to) {
    for (int64_t item = from; item < to && is_exact; ++item) {
      const int64_t part = item / slices, slice = item % slices;
      const Range queries{count * slice / slices, count * (slice + 1) / slices};
      if (!Filter(*this, queries, best_.data() + part * count, n_threads).run(next_rows[slice]))
        is_exact = false;
    }
  });
  if (!is_exact) {
    best_.assign(count, Best(k_));
    return false;
  }
  for (int64_t part = 1; part < parts; ++part)
    for (int64_t i = 0; i < count; ++i) best_[i].offer(best_[part * count + i]);
  return true;
}

}  // namespace scar_gpu
