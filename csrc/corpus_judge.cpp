// Tiles of rows: their cosines with a block of queries, one vectorised pass of comparisons, and
// canonical scores where rounding could decide.

#include "corpus_judge.h"

#include <cmath>

#include "product.h"

namespace scar_gpu {

namespace {

constexpr float NOT_A_NUMBER = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t QUERY_BYTES = 64 << 20, MAX_QUERIES = 4096;
// Queries of a product, a thread's room for the cosines of a tile of rows with them, and that of
// all threads. As much again for rows widened, and for penalties.
constexpr int64_t MAX_GROUP = 1024, TILE_BYTES = 4 << 20, ALL_TILE_BYTES = 64 << 20;
constexpr int64_t MAX_TILE = 4096, MIN_TILE = 32;
// Rows that stay in the first-level cache while every query reads them.
constexpr int64_t CACHED_BYTES = 1 << 15;
// Up to here reading the rows is what costs, and no product is faster.
constexpr int64_t CANONICAL_QUERIES = 8;

int64_t block_size(const Tensor& queries) {
  check(queries.dim() == 2, "queries must have 2 dimensions, got ", queries.dim());
  const int64_t most =
      std::min(QUERY_BYTES / QueryBlock::bytes_per_query(queries.size(1)), MAX_QUERIES);
  return std::clamp<int64_t>(queries.size(0), 1, std::max<int64_t>(most, 1));
}

}  // namespace

// One thread's tile of rows, with a group of queries at a time. The cosine of row r is in column
// r - tile.begin + halo.
class CorpusJudge::Worker {
 public:
  // One of n_threads that do the same.
  Worker(const CorpusJudge& judge, int64_t group, int64_t n_threads);
  int64_t tile_size() const { return size_; }
  // Writes the results of a group of the block's queries; with canonical scores alone, or with a
  // product: false when one is seen to be farther off than rows of unit length explain.
  bool run(Range tile, Range group, bool is_exact, const Results& out);

 private:
  void load(Range tile);
  void multiply_rows(Range tile, Range group);
  void dot_rows(Range tile, Range group);
  bool settle(int64_t i, int64_t offset, const float* values, uint32_t* bits) const;
  void stop_at_refusals(uint32_t* bits) const;
  Range reach() const {
    return {std::max<int64_t>(tile_.begin - judge_.halo_, 0),
            std::min(tile_.end + judge_.halo_, judge_.rows_.count())};
  }
  int64_t n_words() const { return (tile_.end - tile_.begin + 31) / 32; }

  const CorpusJudge& judge_;
  const Rows& rows_;
  Range tile_{0, 0};
  // Rows of a tile, cosines per query, entries of a widened row.
  int64_t size_, stride_, row_stride_;
  std::unique_ptr<float[]> cosines_, wide_;
  // Of a tile: scales, and lam * (1 - continuity) per offset, NaN where there is no neighbour.
  std::vector<float> scales_, penalties_;
  std::vector<uint32_t> close_;
};

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
    const int64_t size = Worker(*this, group, n_threads).tile_size();
    const int64_t n_tiles = (rows_.count() + size - 1) / size;
    parallel_for(n_tiles * n_groups, 1, [&](int64_t from, int64_t to) {
      Worker worker(*this, group, n_threads);
      for (int64_t item = from; item < to; ++item) {
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

CorpusJudge::Worker::Worker(const CorpusJudge& judge, int64_t group, int64_t n_threads)
    : judge_(judge), rows_(judge.rows_), row_stride_(padded(rows_.dim())) {
  const int64_t halo = judge.halo_;
  const int64_t entries =
      std::max({group, 2 * halo, rows_.is_float32() ? int64_t{1} : row_stride_});
  const int64_t most = std::min(TILE_BYTES, ALL_TILE_BYTES / n_threads) / (4 * entries) - 2 * halo;
  const int64_t needed = (std::max<int64_t>(rows_.count(), 1) + 31) / 32 * 32;
  size_ = std::min(needed, std::clamp<int64_t>(most / 32 * 32, MIN_TILE, MAX_TILE));
  stride_ = size_ + 2 * halo;
  cosines_.reset(new float[group * stride_]);
  wide_.reset(rows_.is_float32() ? nullptr : new float[stride_ * row_stride_]);
  scales_.resize(stride_);
  penalties_.resize(2 * halo * size_);
  close_.resize(size_ / 32);
}

// The scales, penalties and widened rows of a tile.
void CorpusJudge::Worker::load(Range tile) {
  tile_ = tile;
  const int64_t halo = judge_.halo_, n_chunks = rows_.count();
  for (int64_t i = 0; i < stride_; ++i) {
    const int64_t row = tile.begin - halo + i;
    scales_[i] = 0 <= row && row < n_chunks ? judge_.scale(row) : 0.0f;
  }
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
  is_exact ? dot_rows(tile, group) : multiply_rows(tile, group);
  const int64_t halo = judge_.halo_, window = judge_.window_, words = judge_.words_;
  // Both cosines may be off, and each of a few roundings of S, the threshold and the bound itself.
  const float margin = std::abs(judge_.gamma_) + 1.0f, tiny = 0x1p-21f;
  const float bound =
      is_exact ? 0.0f : margin * (product_error(rows_.dim()) + tiny) + judge_.lam_ * tiny;
  const InstructionSet& set = instruction_set();
  for (int64_t i = group.begin; i < group.end; ++i) {
    float* values = cosines_.get() + (i - group.begin) * stride_;
    set.scale(values, scales_.data(), judge_.queries_.inverse_norm(i), stride_);
    values += halo;
    const int64_t query = judge_.first_ + i;
    if (out.relevance != nullptr)
      std::copy_n(values, tile.end - tile.begin,
                  out.relevance + query * rows_.count() + tile.begin);
    uint32_t* bits = out.bits + query * 2 * window * words + tile.begin / 32;
    for (int64_t slot = 0; slot < 2 * window; ++slot) {
      const int64_t offset = slot - window + (slot >= window);
      if (std::abs(offset) > halo) {
        std::fill_n(bits + slot * words, n_words(), 0u);
        continue;
      }
      const float* penalties = penalties_.data() + (offset + halo - (offset > 0)) * size_;
      set.judge(values + offset, penalties, values, judge_.gamma_, bound, n_words(),
                bits + slot * words, close_.data());
      if (!is_exact && !settle(i, offset, values, bits + slot * words)) return false;
    }
    if (judge_.contiguous_) stop_at_refusals(bits);
  }
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

// Decides what is too close for a product, by canonical scores. `values` is indexed by row number.
bool CorpusJudge::Worker::settle(int64_t i, int64_t offset, const float* values,
                                 uint32_t* bits) const {
  const float error = product_error(rows_.dim());
  for (int64_t word = 0; word < n_words(); ++word)
    for (uint32_t lanes = close_[word]; lanes != 0; lanes &= lanes - 1) {
      const int64_t row = tile_.begin + 32 * word + __builtin_ctz(lanes);
      float cosine[2];
      for (int64_t side = 0; side < 2; ++side) {
        const int64_t other = row + side * offset;
        rows_.dot(judge_.queries_.vector(i), other, 1, &cosine[side]);
        cosine[side] = judge_.queries_.cosine(i, cosine[side], judge_.scale(other));
        if (std::abs(cosine[side] - values[other - tile_.begin]) > error) return false;
      }
      const float score = cosine[1] - judge_.lam_ * (1.0f - judge_.cohesion(row, offset));
      if (score > judge_.gamma_ * cosine[0]) bits[word] |= lanes & -lanes;
    }
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
