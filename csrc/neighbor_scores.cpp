// The judgement of the neighbours of hits: hits sorted by row, scored in parallel.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "neighbor_scorer.h"
#include "operations.h"

namespace scar_gpu {

namespace {

constexpr float INF = std::numeric_limits<float>::infinity();
constexpr float NOT_A_NUMBER = std::numeric_limits<float>::quiet_NaN();
// Room for a block's queries and hits.
constexpr int64_t BLOCK_BYTES = 32 << 20;
// Fewer hits than this are not worth sorting, or a second thread.
constexpr int64_t SORT_FROM = 1024;
constexpr int64_t HITS_PER_THREAD = 64;

int64_t row_of(uint64_t item) { return static_cast<int64_t>(item >> 32); }

int64_t block_size(const Tensor& queries, const Tensor& hits) {
  check(queries.dim() == 2, "queries must have 2 dimensions, got ", queries.dim());
  check(hits.dim() == 2, "hits must have 2 dimensions, got ", hits.dim());
  const int64_t n_queries = queries.size(0), n_hits = hits.size(1);
  const int64_t bytes = QueryBlock::bytes_per_query(queries.size(1)) + 64 * n_hits;
  return std::clamp<int64_t>(BLOCK_BYTES / bytes, 1, std::max<int64_t>(n_queries, 1));
}

}  // namespace

NeighborScorer::NeighborScorer(const Tensor& queries, const Tensor& embeddings,
                               const Tensor& continuity, const Tensor& hits, double lam,
                               double gamma, bool contiguous,
                               const std::optional<Tensor>& row_scale,
                               const std::optional<Tensor>& relevance)
    : embeddings_(embeddings, "embeddings"),
      continuity_(continuity, "continuity"),
      hits_(hits, "hits"),
      lam_(finite_float("lam", lam)),
      gamma_(finite_float("gamma", gamma)),
      contiguous_(contiguous),
      row_scale_(optional_view<float, 1>(row_scale, "row_scale")),
      relevance_(optional_view<float, 2>(relevance, "relevance")),
      block_(block_size(queries, hits)),
      queries_(queries, block_) {
  const int64_t n_chunks = embeddings_.count();
  check(lam >= 0, "lam must be >= 0, got ", lam);
  check(queries.size(1) == embeddings_.dim(), "queries and embeddings must have one dimension");
  check(queries.size(0) == hits_.size(0), "queries and hits must have one batch size");
  check(continuity_.size(1) == n_chunks, "continuity must have a column for every chunk");
  check(!row_scale_ || row_scale_->size(0) == n_chunks, "row_scale must have one entry per chunk");
  check(
      !relevance_ || (relevance_->size(0) == hits_.size(0) && relevance_->size(1) == hits_.size(1)),
      "relevance must have the shape of hits");
  check(n_chunks < (int64_t{1} << 32) && block_ * n_hits() < (int64_t{1} << 32),
        "more than 2^32 chunks, or hits per query, are not supported");
  hits_.check_range(n_chunks);
}

void NeighborScorer::run(int64_t first, int64_t count, float* relevance, float* scores,
                         bool* mask) {
  const Outputs out{relevance, scores, mask};
  queries_.load(first, count);
  const int64_t n_items = list_hits(first, count, out);
  // Neighbouring hits share rows, and rising addresses share pages.
  if (n_items >= SORT_FROM) sort_by_row(n_items);
  parallel_for(n_items, HITS_PER_THREAD, [&](int64_t begin, int64_t end) {
    Scratch scratch(window());
    for (int64_t i = begin; i < end; ++i) {
      const bool look_ahead = n_items >= SORT_FROM && i + 1 < end;
      score(items_[i], items_[look_ahead ? i + 1 : i], first, out, scratch);
    }
  });
}

// Fills `items_` with the block's hits and the outputs of padding hits with -inf.
int64_t NeighborScorer::list_hits(int64_t first, int64_t count, const Outputs& out) {
  items_.resize(count * n_hits());
  int64_t n_items = 0;
  for (int64_t slot = 0; slot < count * n_hits(); ++slot) {
    const int64_t row = hits_(first + slot / n_hits(), slot % n_hits());
    if (row >= 0) {
      items_[n_items++] = static_cast<uint64_t>(row) << 32 | static_cast<uint64_t>(slot);
    } else {
      out.relevance[slot] = -INF;
      std::fill_n(out.scores + slot * n_neighbors(), n_neighbors(), -INF);
      std::fill_n(out.mask + slot * n_neighbors(), n_neighbors(), false);
    }
  }
  return n_items;
}

void NeighborScorer::sort_by_row(int64_t n_items) {
  constexpr int DIGIT = 11;
  constexpr uint64_t DIGIT_MASK = (1 << DIGIT) - 1;
  sorted_.resize(n_items);
  const int top = 32 + std::bit_width(static_cast<uint64_t>(embeddings_.count()));
  for (int shift = 32; shift < top; shift += DIGIT) {
    std::array<int64_t, DIGIT_MASK + 2> begin{};
    for (int64_t i = 0; i < n_items; ++i) ++begin[(items_[i] >> shift & DIGIT_MASK) + 1];
    for (size_t digit = 1; digit < begin.size(); ++digit) begin[digit] += begin[digit - 1];
    for (int64_t i = 0; i < n_items; ++i)
      sorted_[begin[items_[i] >> shift & DIGIT_MASK]++] = items_[i];
    items_.swap(sorted_);
  }
}

void NeighborScorer::score(uint64_t item, uint64_t next, int64_t first, const Outputs& out,
                           Scratch& scratch) const {
  const int64_t row = row_of(item);
  const int64_t slot = static_cast<int64_t>(item & 0xffffffffu);
  const int64_t query = slot / n_hits(), w = window();
  float* scores = out.scores + slot * n_neighbors();
  bool* mask = out.mask + slot * n_neighbors();

  // The stretch of rows that have to be read; continuity is NaN outside the document.
  int64_t low = row, high = row;
  float* cohesion = scratch.cohesion.data();
  for (int64_t j = 1; j <= w; ++j) {
    cohesion[w - j] = row - j >= 0 ? continuity_(j - 1, row - j) : NOT_A_NUMBER;
    cohesion[w + j - 1] = row + j < embeddings_.count() ? continuity_(j - 1, row) : NOT_A_NUMBER;
    if (!std::isnan(cohesion[w - j])) low = row - j;
    if (!std::isnan(cohesion[w + j - 1])) high = row + j;
  }

  const int64_t ahead = next == item ? -1 : std::max<int64_t>(row_of(next) - w, 0);
  const float* vector = queries_.vector(query);
  float* dots = scratch.dots.data() + w - row;  // indexed by row number
  float relevance;
  if (relevance_) {
    relevance = (*relevance_)(first + query, slot % n_hits());
    embeddings_.dot(vector, low, row - low, dots + low, ahead);
    embeddings_.dot(vector, row + 1, high - row, dots + row + 1, ahead < 0 ? ahead : ahead + w + 1);
  } else {
    embeddings_.dot(vector, low, high - low + 1, dots + low, ahead);
    relevance = cosine(query, dots[row], row);
  }
  out.relevance[slot] = relevance;

  const float threshold = gamma_ * relevance;
  for (int64_t j = 0; j < 2 * w; ++j) {
    const int64_t neighbor = row + j - w + (j >= w);
    scores[j] = std::isnan(cohesion[j])
                    ? -INF
                    : cosine(query, dots[neighbor], neighbor) - lam_ * (1.0f - cohesion[j]);
    mask[j] = !std::isnan(cohesion[j]) && scores[j] > threshold;
  }
  if (contiguous_)  // walking away from the hit, a refusal stops the direction
    for (int64_t j = 1; j < w; ++j) {
      mask[w + j] = mask[w + j] && mask[w + j - 1];
      mask[w - 1 - j] = mask[w - 1 - j] && mask[w - j];
    }
}

std::tuple<Tensor, Tensor, Tensor> neighbor_scores(const Tensor& queries, const Tensor& embeddings,
                                                   const Tensor& continuity, const Tensor& hits,
                                                   double lam, double gamma, bool contiguous,
                                                   std::optional<Tensor> row_scale,
                                                   std::optional<Tensor> relevance) {
  NeighborScorer scorer(queries, embeddings, continuity, hits, lam, gamma, contiguous, row_scale,
                        relevance);
  const int64_t n_queries = scorer.n_queries(), k = scorer.n_hits(), n = scorer.n_neighbors();
  Tensor out_relevance = allocate({n_queries, k}, ScalarType::Float);
  Tensor out_scores = allocate({n_queries, k, n}, ScalarType::Float);
  Tensor out_mask = allocate({n_queries, k, n}, ScalarType::Bool);
  for (int64_t b = 0; b < n_queries; b += scorer.block())
    scorer.run(b, std::min(scorer.block(), n_queries - b), data<float>(out_relevance) + b * k,
               data<float>(out_scores) + b * k * n, data<bool>(out_mask) + b * k * n);
  return {out_relevance, out_scores, out_mask};
}

}  // namespace scar_gpu
