// Tiles of rows: their cosines with a block of queries, one vectorised pass of comparisons, and
// canonical scores where rounding could decide.

#include "corpus_judge.h"

#include <atomic>
#include <cmath>

#include "product.h"

namespace scar_gpu {

namespace {

constexpr float NOT_A_NUMBER = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t QUERY_BYTES = 64 << 20, MAX_QUERIES = 4096;
// Room for the cosines of a tile, as much for its rows widened, and for its penalties.
constexpr int64_t TILE_BYTES = 16 << 20;
constexpr int64_t MAX_TILE = 16384, MIN_TILE = 32;
// Rows that stay in the second-level cache while every query reads them.
constexpr int64_t CACHED_BYTES = 1 << 18;
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
      lam_(static_cast<float>(lam)),
      gamma_(static_cast<float>(gamma)),
      contiguous_(contiguous),
      n_queries_(queries.size(0)),
      window_(continuity_.size(0)),
      halo_(std::min(window_, rows_.count())),
      block_(block_size(queries)),
      words_((rows_.count() + 31) / 32),
      queries_(queries, block_) {
  check(lam >= 0 && std::isfinite(lam), "lam must be finite and >= 0, got ", lam);
  check(std::isfinite(gamma), "gamma must be finite, got ", gamma);
  check(queries.size(1) == rows_.dim(), "queries and embeddings must have one dimension");
  check(continuity_.size(1) == rows_.count(), "continuity must have a column for every chunk");
  check(!row_scale_ || row_scale_->size(0) == rows_.count(),
        "row_scale must have one entry per chunk");
}

void CorpusJudge::run(uint32_t* bits, float* relevance) {
  const int64_t n_chunks = rows_.count();
  for (int64_t first = 0; first < n_queries_; first += block_) {
    const int64_t count = std::min(block_, n_queries_ - first);
    queries_.load(first, count);
    prepare(count);
    // A relevance that is returned is canonical.
    bool is_exact = relevance != nullptr || count <= CANONICAL_QUERIES || !product_is_exact();
    for (int64_t begin = 0; begin < n_chunks; begin += size_) {
      const Tile tile{begin, std::min(begin + size_, n_chunks)};
      load(tile);
      std::atomic<bool> is_done = false;
      while (!is_done) {
        is_exact ? dot_tile(tile, count) : multiply_tile(tile, count);
        is_done = true;
        parallel_for(count, 1, [&](int64_t from, int64_t to) {
          std::vector<uint32_t> close(tile.words());
          for (int64_t i = from; i < to; ++i) {
            uint32_t* out = bits + (first + i) * 2 * window_ * words_ + begin / 32;
            if (!judge(tile, i, is_exact, out, close.data())) is_done = false;
            if (relevance != nullptr)
              std::copy_n(cosines(i) + halo_, tile.end - begin,
                          relevance + (first + i) * n_chunks + begin);
          }
        });
        // Rows that are not of unit length: their products prove nothing, from here on.
        is_exact = is_exact || !is_done;
      }
    }
  }
}

// Room for tiles of as many rows as fit.
void CorpusJudge::prepare(int64_t count) {
  const int64_t stride = padded(rows_.dim());
  const int64_t row_entries =
      std::max({count, 2 * halo_, rows_.is_float32() ? int64_t{1} : stride});
  const int64_t most = TILE_BYTES / (4 * row_entries) - 2 * halo_;
  const int64_t needed = (std::max<int64_t>(rows_.count(), 1) + 31) / 32 * 32;
  size_ = std::min(needed, std::clamp<int64_t>(most / 32 * 32, MIN_TILE, MAX_TILE));
  stride_ = size_ + 2 * halo_;
  cosines_.reset(new float[count * stride_]);
  wide_.reset(rows_.is_float32() ? nullptr : new float[stride_ * stride]);
  scales_.assign(stride_, 0.0f);
  penalties_.resize(2 * halo_ * size_);
}

// cos(row, row + offset), NaN where there is no such neighbour.
float CorpusJudge::cohesion(int64_t row, int64_t offset) const {
  const int64_t left = std::min(row, row + offset);
  if (left < 0 || std::max(row, row + offset) >= rows_.count()) return NOT_A_NUMBER;
  return continuity_(std::abs(offset) - 1, left);
}

// The scales and penalties of a tile.
void CorpusJudge::load(const Tile& tile) {
  for (int64_t i = 0; i < stride_; ++i) {
    const int64_t row = tile.begin - halo_ + i;
    scales_[i] = 0 <= row && row < rows_.count() ? scale(row) : 0.0f;
  }
  parallel_for(2 * halo_, 1, [&](int64_t from, int64_t to) {
    for (int64_t slot = from; slot < to; ++slot) {
      const int64_t offset = slot - halo_ + (slot >= halo_);
      float* out = penalties_.data() + slot * size_;
      for (int64_t row = tile.begin; row < tile.begin + size_; ++row)
        *out++ = row < tile.end ? lam_ * (1.0f - cohesion(row, offset)) : NOT_A_NUMBER;
    }
  });
}

// cosines = queries @ rows.T, still without scales.
void CorpusJudge::multiply_tile(const Tile& tile, int64_t count) {
  const int64_t low = std::max<int64_t>(tile.begin - halo_, 0);
  const int64_t high = std::min(tile.end + halo_, rows_.count());
  const int64_t dim = rows_.dim(), stride = padded(dim);
  if (wide_)
    parallel_for(high - low, 64, [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i) rows_.widen(low + i, 1, wide_.get() + i * stride);
    });
  multiply(matrix(queries_.vector(0), count, dim, stride, 1),
           wide_ ? matrix(wide_.get(), dim, high - low, 1, stride)
                 : matrix(rows_.data(low), dim, high - low, 1, rows_.row_bytes() / 4),
           matrix(cosines(0) + low - (tile.begin - halo_), count, high - low, stride_, 1));
}

// The same by canonical dot products.
void CorpusJudge::dot_tile(const Tile& tile, int64_t count) {
  const int64_t low = std::max<int64_t>(tile.begin - halo_, 0);
  const int64_t high = std::min(tile.end + halo_, rows_.count());
  const int64_t some = std::max<int64_t>(1, CACHED_BYTES / std::max<int64_t>(1, rows_.row_bytes()));
  const int64_t n_parts = (high - low + some - 1) / some;
  parallel_for(n_parts, 1, [&](int64_t from, int64_t to) {
    for (int64_t part = from; part < to; ++part) {
      const int64_t row = low + part * some;
      for (int64_t i = 0; i < count; ++i)
        rows_.dot(queries_.vector(i), row, std::min(some, high - row),
                  cosines(i) + row - (tile.begin - halo_));
    }
  });
}

// The bits of query i, which start at `bits`. False when a product is seen to be farther from its
// canonical score than rows of unit length explain.
bool CorpusJudge::judge(const Tile& tile, int64_t i, bool is_exact, uint32_t* bits,
                        uint32_t* close) {
  const int64_t n_words = tile.words();
  float* values = cosines(i);
  instruction_set().scale(values, scales_.data(), queries_.inverse_norm(i), stride_);
  // Both cosines may be off, and each of a few roundings of S, the threshold and the bound itself.
  const float margin = std::abs(gamma_) + 1.0f, tiny = 0x1p-21f;
  const float bound = is_exact ? 0.0f : margin * (product_error(rows_.dim()) + tiny) + lam_ * tiny;
  for (int64_t slot = 0; slot < 2 * window_; ++slot) {
    const int64_t offset = slot - window_ + (slot >= window_);
    uint32_t* out = bits + slot * words_;
    if (std::abs(offset) > halo_) {
      std::fill_n(out, n_words, 0u);
      continue;
    }
    const int64_t own = offset + halo_ - (offset > 0);
    instruction_set().judge(values + halo_ + offset, penalties(own), values + halo_, gamma_, bound,
                            n_words, out, close);
    if (!is_exact && !settle(tile, i, offset, close, out)) return false;
  }
  if (contiguous_) stop_at_refusals(bits, n_words);
  return true;
}

// Decides what is too close for a product, by canonical scores.
bool CorpusJudge::settle(const Tile& tile, int64_t i, int64_t offset, const uint32_t* close,
                         uint32_t* bits) const {
  const float error = product_error(rows_.dim());
  const float* values = cosines(i) + halo_ - tile.begin;  // indexed by row number
  for (int64_t word = 0; word < tile.words(); ++word)
    for (uint32_t lanes = close[word]; lanes != 0; lanes &= lanes - 1) {
      const int64_t row = tile.begin + 32 * word + __builtin_ctz(lanes);
      float dot[2], cosine[2];
      rows_.dot(queries_.vector(i), row, 1, &dot[0]);
      rows_.dot(queries_.vector(i), row + offset, 1, &dot[1]);
      for (int64_t side = 0; side < 2; ++side) {
        const int64_t other = row + side * offset;
        cosine[side] = queries_.cosine(i, dot[side], scale(other));
        if (std::abs(cosine[side] - values[other]) > error) return false;
      }
      const float score = cosine[1] - lam_ * (1.0f - cohesion(row, offset));
      if (score > gamma_ * cosine[0]) bits[word] |= lanes & -lanes;
    }
  return true;
}

// Walking away from a row, a refusal stops the direction.
void CorpusJudge::stop_at_refusals(uint32_t* bits, int64_t n_words) const {
  for (int64_t step = 1; step < window_; ++step)
    for (int64_t word = 0; word < n_words; ++word) {
      bits[(window_ + step) * words_ + word] &= bits[(window_ + step - 1) * words_ + word];
      bits[(window_ - 1 - step) * words_ + word] &= bits[(window_ - step) * words_ + word];
    }
}

}  // namespace scar_gpu
