// Tiles of rows: their cosines with a group of queries, one vectorised pass of comparisons, and
// canonical scores where rounding could decide.

#include "corpus_worker.h"

#include <cmath>

#include "product.h"

namespace scar_gpu {

namespace {

// A thread's room for the cosines of a tile of rows with a group of queries, and that of all
// threads. As much again for rows widened, and for penalties.
constexpr int64_t TILE_BYTES = 4 << 20, ALL_TILE_BYTES = 64 << 20;
constexpr int64_t MAX_TILE = 4096, MIN_TILE = 32;
// Rows that stay in the first-level cache while every query reads them.
constexpr int64_t CACHED_BYTES = 1 << 15;
// Decisions left open before they are settled.
constexpr size_t MAX_OPEN = 1 << 16;
constexpr float NOT_A_NUMBER = std::numeric_limits<float>::quiet_NaN();

}  // namespace

int64_t CorpusJudge::Worker::tile_size(const CorpusJudge& judge, int64_t group, int64_t n_threads) {
  const Rows& rows = judge.rows_;
  const int64_t widened = rows.is_float32() ? 1 : padded(rows.dim());
  const int64_t entries = std::max({group, 2 * judge.halo_, widened});
  const int64_t room = std::min(TILE_BYTES, ALL_TILE_BYTES / n_threads);
  const int64_t most = room / (4 * entries) - 2 * judge.halo_;
  const int64_t needed = (std::max<int64_t>(rows.count(), 1) + 31) / 32 * 32;
  return std::min(needed, std::clamp<int64_t>(most / 32 * 32, MIN_TILE, MAX_TILE));
}

CorpusJudge::Worker::Worker(const CorpusJudge& judge, int64_t group, int64_t n_threads)
    : judge_(judge),
      rows_(judge.rows_),
      size_(tile_size(judge, group, n_threads)),
      stride_(size_ + 2 * judge.halo_),
      row_stride_(padded(rows_.dim())) {
  cosines_.reset(new float[group * stride_]);
  wide_.reset(rows_.is_float32() ? nullptr : new float[stride_ * row_stride_]);
  scales_.resize(stride_);
  penalties_.resize(2 * judge.halo_ * size_);
  for (auto& close : close_) close.resize(size_ / 32);
}

// The scales, penalties and widened rows of a tile.
void CorpusJudge::Worker::load(Range tile) {
  tile_ = tile;
  const int64_t halo = judge_.halo_, n_chunks = rows_.count();
  for (int64_t i = 0; i < stride_; ++i) {
    const int64_t row = tile.begin - halo + i;
    scales_[i] = 0 <= row && row < n_chunks ? judge_.scale(row) : 0.0f;
  }
  suits_product_ = std::ranges::all_of(scales_, suits_product);
  float* out = penalties_.data();
  for (int64_t slot = 0; slot < 2 * halo; ++slot)
    for (int64_t row = tile.begin; row < tile.begin + size_; ++row)
      *out++ = row < tile.end
                   ? judge_.lam_ * (1.0f - judge_.cohesion(row, slot - halo + (slot >= halo)))
                   : NOT_A_NUMBER;
  if (!wide_) return;
  for (int64_t row = reach().begin; row < reach().end; ++row)
    rows_.widen(row, 1, wide_.get() + (row - reach().begin) * row_stride_);
}

bool CorpusJudge::Worker::run(Range tile, Range group, bool is_exact, const Results& out) {
  if (tile.begin != tile_.begin || tile.end != tile_.end) load(tile);
  is_exact = is_exact || !suits_product_;
  is_exact ? dot_rows(tile, group) : multiply_rows(tile, group);
  const int64_t halo = judge_.halo_, window = judge_.window_;
  // Both cosines may be off, and each of a few roundings of S, the threshold and the bound itself.
  const float margin = std::abs(judge_.gamma_) + 1.0f, tiny = 0x1p-21f;
  const float bound =
      is_exact ? 0.0f : margin * (product_error(rows_.dim()) + tiny) + judge_.lam_ * tiny;
  const InstructionSet& set = instruction_set();
  open_.clear();
  for (int64_t i = group.begin; i < group.end; ++i) {
    float* values = cosines_.get() + (i - group.begin) * stride_;
    set.scale(values, scales_.data(), judge_.queries_.inverse_norm(i), stride_);
    values += halo;
    if (out.relevance != nullptr)
      std::copy_n(values, tile.end - tile.begin,
                  out.relevance + (judge_.first_ + i) * rows_.count() + tile.begin);
    for (int64_t distance = 1; distance <= window; ++distance) {
      uint32_t* const before = words(out, i, window - distance);
      uint32_t* const after = words(out, i, window + distance - 1);
      if (distance > halo) {
        std::fill_n(before, n_words(), 0u);
        std::fill_n(after, n_words(), 0u);
        continue;
      }
      const Side sides[] = {
          {values - distance, penalties(-distance), before, close_[0].data()},
          {values + distance, penalties(distance), after, close_[1].data()},
      };
      if (!set.judge(sides, values, judge_.gamma_, bound, n_words(), values + stride_)) continue;
      note_close(i, window - distance, -distance, close_[0]);
      note_close(i, window + distance - 1, distance, close_[1]);
      if (open_.size() >= MAX_OPEN && !settle(group, out)) return false;
    }
  }
  if (!settle(group, out)) return false;
  if (judge_.contiguous_)
    for (int64_t i = group.begin; i < group.end; ++i) stop_at_refusals(words(out, i, 0));
  return true;
}

// queries @ rows.T, still without scales.
void CorpusJudge::Worker::multiply_rows(Range tile, Range group) {
  const Range rows = reach();
  const int64_t dim = rows_.dim(), n = rows.end - rows.begin, count = group.end - group.begin;
  multiply(matrix(judge_.queries_.vector(group.begin), count, dim, row_stride_, 1),
           wide_ ? matrix(wide_.get(), dim, n, 1, row_stride_)
                 : matrix(rows_.data(rows.begin), dim, n, 1, rows_.row_bytes() / 4),
           matrix(cosines_.get() + rows.begin - (tile.begin - judge_.halo_), count, n, stride_, 1));
}

// The same by canonical dot products.
void CorpusJudge::Worker::dot_rows(Range tile, Range group) {
  const Range rows = reach();
  const int64_t some = std::max<int64_t>(1, CACHED_BYTES / std::max<int64_t>(1, rows_.row_bytes()));
  for (int64_t row = rows.begin; row < rows.end; row += some)
    for (int64_t i = group.begin; i < group.end; ++i)
      rows_.dot(judge_.queries_.vector(i), row, std::min(some, rows.end - row),
                cosines_.get() + (i - group.begin) * stride_ + row - (tile.begin - judge_.halo_));
}

// Notes what a product leaves open of a query's decisions.
void CorpusJudge::Worker::note_close(int64_t i, int64_t slot, int64_t offset,
                                     const std::vector<uint32_t>& close) {
  for (int64_t word = 0; word < n_words(); ++word)
    for (uint32_t lanes = close[word]; lanes != 0; lanes &= lanes - 1) {
      const int64_t parent = 32 * word + __builtin_ctz(lanes);
      open_.push_back({static_cast<int32_t>(i), static_cast<int32_t>(slot),
                       static_cast<int32_t>(parent), static_cast<int32_t>(parent + offset)});
    }
}

// Decides what is open, by canonical scores.
bool CorpusJudge::Worker::settle(Range group, const Results& out) {
  const float error = product_error(rows_.dim());
  const int64_t halo = judge_.halo_;
  const float* scales = scales_.data() + halo;
  for (size_t at = 0; at < open_.size(); ++at) {
    const auto [i, slot, parent, neighbor] = open_[at];
    const Open& next = open_[std::min(at + 1, open_.size() - 1)];
    const int64_t first = std::min(parent, neighbor), distance = std::abs(neighbor - parent);
    float cosines[2];  // of the earlier row and the later one
    rows_.dot_pair(judge_.queries_.vector(i), tile_.begin + first, distance, cosines,
                   tile_.begin + std::min(next.parent, next.neighbor));
    const float* products = cosines_.get() + (i - group.begin) * stride_ + halo;
    for (int64_t side = 0; side < 2; ++side) {
      const int64_t row = first + side * distance;
      cosines[side] = judge_.queries_.cosine(i, cosines[side], scales[row]);
      if (std::abs(cosines[side] - products[row]) > error) return false;
    }
    const bool is_later = neighbor > parent;
    const float score = cosines[is_later] - penalties(neighbor - parent)[parent];
    if (score > judge_.gamma_ * cosines[!is_later])
      words(out, i, slot)[parent / 32] |= uint32_t{1} << parent % 32;
  }
  open_.clear();
  return true;
}

// Walking away from a row, a refusal stops the direction.
void CorpusJudge::Worker::stop_at_refusals(uint32_t* bits) const {
  const int64_t window = judge_.window_, words = judge_.words_;
  for (int64_t step = 1; step < window; ++step)
    for (int64_t word = 0; word < n_words(); ++word) {
      bits[(window + step) * words + word] &= bits[(window + step - 1) * words + word];
      bits[(window - 1 - step) * words + word] &= bits[(window - step) * words + word];
    }
}

}  // namespace scar_gpu
