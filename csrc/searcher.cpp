// Exact top-k: streamed for few queries, by a filtering matrix product for many.

#include "searcher.h"

#include <atomic>
#include <cmath>

#include "operations.h"
#include "product.h"

namespace scar_gpu {

namespace {

constexpr float INF = std::numeric_limits<float>::infinity();
// Room for a block of queries with their results so far.
constexpr int64_t QUERY_BYTES = 64 << 20;
// More queries at a time leave the cache with their results.
constexpr int64_t MAX_QUERIES = 4096;
// Room for the products of a tile of rows with a block of queries.
constexpr int64_t PRODUCT_BYTES = 16 << 20;
constexpr int64_t MAX_TILE = 16384, MIN_TILE = 16;
// Rows that stay in the second-level cache while every query reads them.
constexpr int64_t STREAM_TILE_BYTES = 1 << 18;
// Lines of products that are fetched ahead: a thread reads a part of each, which no hardware
// follows.
constexpr int64_t LINES_AHEAD = 16;
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
                   const std::optional<Tensor>& row_scale, const std::optional<Tensor>& row_ranges)
    : rows_(embeddings, "embeddings"),
      row_scale_(optional_view<float, 1>(row_scale, "row_scale")),
      row_ranges_(optional_view<int64_t, 2>(row_ranges, "row_ranges")),
      k_(k),
      n_queries_(queries.size(0)),
      block_(block_size(queries, k)),
      queries_(queries, block_) {
  const int64_t n_chunks = rows_.count();
  check(queries.size(1) == rows_.dim(), "queries and embeddings must have one dimension");
  check(!row_scale_ || row_scale_->size(0) == n_chunks, "row_scale must have one entry per chunk");
  check(k >= 1, "k must be >= 1, got ", k);
  check(k < int64_t{1} << 31, "k must be below 2^31, got ", k);
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
  const int64_t parts = std::clamp<int64_t>(n_chunks / tile, 1, torch::stable::get_num_threads());
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
            best[part * count + i].offer(
                {queries_.cosine(i, dots[row - range.begin], scale(row)), row});
        }
    }
  });
  for (int64_t i = 0; i < count; ++i)
    for (int64_t part = 0; part < parts; ++part) best_[i].offer(best[part * count + i]);
}

// The dot product times row scale that a row needs to become a result of query i.
float Searcher::threshold(int64_t i) const {
  const float floor = best_[i].floor(), inverse_norm = queries_.inverse_norm(i);
  if (floor == -INF && !std::isnan(inverse_norm)) return -INF;
  // A zero query has k results already, and its further scores of 0 come too late; a NaN query
  // never has results.
  if (!(inverse_norm > 0)) return INF;
  const double needed = (static_cast<double>(floor) - product_error(rows_.dim())) / inverse_norm;
  return std::nextafter(static_cast<float>(needed), -INF);
}

// A matrix product decides which scores are worth computing. False when a product is seen to be
// farther from its canonical score than rows of unit length explain; then nothing is kept.
bool Searcher::filter(int64_t count) {
  const int64_t n_chunks = rows_.count();
  const int64_t dim = rows_.dim(), stride = padded(dim);
  const int64_t row_entries = rows_.is_float32() ? count : std::max(count, stride);
  const int64_t size = std::min(
      n_chunks, std::clamp<int64_t>(PRODUCT_BYTES / (4 * row_entries), MIN_TILE, MAX_TILE));
  const std::unique_ptr<float[]> products(new float[size * count]);
  const std::unique_ptr<float[]> wide(rows_.is_float32() ? nullptr : new float[size * stride]);
  const Tensor vectors = matrix(queries_.vector(0), dim, count, 1, stride);
  thresholds_.assign(count, -INF);
  std::atomic<bool> exact = true;
  for (int64_t begin = 0; begin < n_chunks && exact; begin += size) {
    const int64_t end = std::min(begin + size, n_chunks), n = end - begin;
    bool wanted = false;
    for (int64_t i = 0; i < count; ++i) {
      const Range range = allowed(i, begin, end);
      thresholds_[i] = range.begin < range.end ? threshold(i) : INF;
      wanted = wanted || thresholds_[i] < INF;
    }
    if (!wanted) continue;
    if (wide)
      parallel_for(n, 64, [&](int64_t from, int64_t to) {
        for (int64_t i = from; i < to; ++i) rows_.widen(begin + i, 1, wide.get() + i * stride);
      });
    multiply(wide ? matrix(wide.get(), n, dim, stride, 1)
                  : matrix(rows_.data(begin), n, dim, rows_.row_bytes() / 4, 1),
             vectors, matrix(products.get(), n, count, count, 1));
    const int64_t share = (count + torch::stable::get_num_threads() - 1) /
                          static_cast<int64_t>(torch::stable::get_num_threads());
    parallel_for(count, share, [&](int64_t from, int64_t to) {
      if (!scan(products.get(), begin, end, count, from, to)) exact = false;
    });
  }
  if (!exact) best_.assign(count, Best(k_));
  return exact;
}

// Rescores what the filter lets through of rows begin .. end for queries from .. to. False when a
// product and its canonical score differ by more than float32 arithmetic explains.
bool Searcher::scan(const float* products, int64_t begin, int64_t end, int64_t count, int64_t from,
                    int64_t to) {
  const float error = product_error(rows_.dim());
  const auto passing = instruction_set().passing;
  std::vector<int32_t> passed(to - from);
  for (int64_t row = begin; row < end; ++row) {
    const float row_scale = scale(row);
    const float* line = products + (row - begin) * count;
    for (int64_t i = from; i < to; i += 16) __builtin_prefetch(line + LINES_AHEAD * count + i);
    const int64_t n =
        passing(line + from, row_scale, thresholds_.data() + from, to - from, passed.data());
    for (int64_t j = 0; j < n; ++j) {
      const int64_t i = from + passed[j];
      const Range range = allowed(i, row, row + 1);
      if (range.begin == range.end) continue;
      float dot;
      rows_.dot(queries_.vector(i), row, 1, &dot);
      const float score = queries_.cosine(i, dot, row_scale);
      if (std::abs(score - queries_.cosine(i, line[i], row_scale)) > error) return false;
      best_[i].offer({score, row});
      thresholds_[i] = threshold(i);
    }
  }
  return true;
}

}  // namespace scar_gpu
