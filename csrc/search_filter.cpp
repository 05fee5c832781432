// Tiles of rows times groups of queries, and canonical scores for the products that pass.

#include "search_filter.h"

#include <cmath>

#include "product.h"

namespace scar_gpu {

namespace {

constexpr float NOT_A_NUMBER = std::numeric_limits<float>::quiet_NaN();
// A thread's room for the products of a tile of rows with a group of queries, and that of all
// threads. As much again for rows widened.
constexpr int64_t PRODUCT_BYTES = 4 << 20, ALL_PRODUCT_BYTES = 64 << 20;
constexpr int64_t MAX_TILE = 16384, MIN_TILE = 16;

}  // namespace

Searcher::Filter::Filter(Searcher& searcher, Range queries, Best* best, int64_t n_threads)
    : searcher_(searcher),
      rows_(searcher.rows_),
      queries_(queries),
      best_(best),
      stride_(padded(rows_.dim())),
      group_(std::min(GROUP, queries.end - queries.begin)),
      thresholds_(queries.end - queries.begin),
      rescored_(queries.end - queries.begin),
      passed_(group_) {
  const int64_t entries = rows_.is_float32() ? group_ : std::max(group_, stride_);
  const int64_t bytes = std::min(PRODUCT_BYTES, ALL_PRODUCT_BYTES / n_threads);
  size_ = std::min(rows_.count(), std::clamp<int64_t>(bytes / (4 * entries), MIN_TILE, MAX_TILE));
  products_.reset(new float[size_ * group_]);
  wide_.reset(rows_.is_float32() ? nullptr : new float[size_ * stride_]);
  scales_.resize(size_);
}

bool Searcher::Filter::run(std::atomic<int64_t>& next) {
  const int64_t n_chunks = rows_.count();
  for (int64_t begin; (begin = next.fetch_add(size_, std::memory_order_relaxed)) < n_chunks;) {
    const Range tile{begin, std::min(begin + size_, n_chunks)};
    if (!load(tile)) continue;
    for (int64_t first = queries_.begin; first < queries_.end; first += group_)
      if (!scan(tile, {first, std::min(first + group_, queries_.end)})) {
        next.store(n_chunks, std::memory_order_relaxed);  // what others find is not kept, either
        return false;
      }
  }
  return true;
}

// False when no query may return a row of the tile.
bool Searcher::Filter::load(Range tile) {
  bool is_wanted = false;
  for (int64_t i = queries_.begin; i < queries_.end; ++i) {
    const Range range = searcher_.allowed(i, tile.begin, tile.end);
    const float least = range.begin < range.end ? threshold(i) : INF;
    thresholds_[i - queries_.begin] = least;
    is_wanted = is_wanted || least < INF;
  }
  for (int64_t row = tile.begin; row < tile.end; ++row) {
    const float scale = searcher_.scale(row);
    // What is NaN passes.
    scales_[row - tile.begin] = suits_product(scale) ? scale : NOT_A_NUMBER;
  }
  if (is_wanted && wide_)
    for (int64_t row = tile.begin; row < tile.end; ++row)
      rows_.widen(row, 1, wide_.get() + (row - tile.begin) * stride_);
  return is_wanted;
}

// The dot product times row scale that a row needs to become a result of query i.
float Searcher::Filter::threshold(int64_t i) const {
  const float own = best_[i].floor(), inverse_norm = searcher_.queries_.inverse_norm(i);
  const float least = searcher_.least(i);
  if (std::isnan(inverse_norm)) return INF;  // never has results
  // Once a zero query has k results, further scores of 0 come too late.
  if (inverse_norm == 0) return own == -INF && !(least > 0) ? -INF : INF;
  float floor = std::max(own, searcher_.floors_[i].load(std::memory_order_relaxed));
  if (rescored_[i - queries_.begin] >= searcher_.k_ && least > floor) floor = least;
  const double needed = (static_cast<double>(floor) - product_error(rows_.dim())) / inverse_norm;
  return std::nextafter(static_cast<float>(needed), -INF);
}

// Rescores what the filter lets through of a tile for a group of queries.
bool Searcher::Filter::scan(Range tile, Range group) {
  const int64_t n_rows = tile.end - tile.begin, count = group.end - group.begin;
  const QueryBlock& queries = searcher_.queries_;
  multiply(wide_ ? matrix(wide_.get(), n_rows, rows_.dim(), stride_, 1)
                 : matrix(rows_.data(tile.begin), n_rows, rows_.dim(), rows_.row_bytes() / 4, 1),
           matrix(queries.vector(group.begin), rows_.dim(), count, 1, stride_),
           matrix(products_.get(), n_rows, count, count, 1));
  const float error = product_error(rows_.dim());
  const auto passing = instruction_set().passing;
  float* thresholds = thresholds_.data() + group.begin - queries_.begin;
  for (int64_t line = 0; line < n_rows; ++line) {
    int64_t found;
    const float* products = products_.get();
    line += passing(products + line * count, scales_.data() + line, thresholds, count,
                    n_rows - line, passed_.data(), &found);
    for (int64_t j = 0; j < found; ++j) {
      const int64_t i = group.begin + passed_[j], row = tile.begin + line;
      const Range range = searcher_.allowed(i, row, row + 1);
      if (range.begin == range.end) continue;
      float dot;
      rows_.dot(queries.vector(i), row, 1, &dot);
      const float score = queries.cosine(i, dot, searcher_.scale(row));
      const float product = products[line * count + passed_[j]];
      if (std::abs(score - queries.cosine(i, product, scales_[line])) > error) return false;
      ++rescored_[i - queries_.begin];
      searcher_.offer(i, {score, row}, best_[i]);
      std::atomic<float>& floor = searcher_.floors_[i];
      // Two threads may overwrite each other; either is a k-th score that was seen.
      if (best_[i].floor() > floor.load(std::memory_order_relaxed))
        floor.store(best_[i].floor(), std::memory_order_relaxed);
      thresholds[passed_[j]] = threshold(i);
    }
  }
  return true;
}

}  // namespace scar_gpu
