// The judgement and the union in one call, a block of queries at a time.

#include "scar_expand.h"

#include "operations.h"

namespace scar_gpu {

void expand_judged(const NeighborScorer& scorer, int64_t first, int64_t count,
                   const Judgement& judged, bool document_order, const ExpansionResult& result) {
  const int64_t k = scorer.n_hits(), n = scorer.n_neighbors();
  parallel_for(count, 64, [&](int64_t begin, int64_t end) {
    Expander expander(k, scorer.window(), scorer.window());
    for (int64_t i = begin; i < end; ++i) {
      const float *r = judged.relevance + i * k, *s = judged.scores + i * k * n;
      const bool* m = judged.mask + i * k * n;
      expander.run([&](int64_t h) { return scorer.hits()(first + i, h); },
                   [&](int64_t h) { return r[h]; },
                   [&](int64_t h, int64_t j) { return s[h * n + j]; },
                   [&](int64_t h, int64_t j) { return m[h * n + j]; }, document_order,
                   result.row(first + i));
    }
  });
}

ExpansionTensors scar_expand(const Tensor& queries, const Tensor& embeddings,
                             const Tensor& continuity, const Tensor& hits, double lam, double gamma,
                             bool contiguous, OptionalTensor row_scale, OptionalTensor relevance,
                             bool document_order) {
  NeighborScorer scorer(queries, embeddings, continuity, hits, lam, gamma, contiguous, row_scale,
                        relevance);
  const int64_t n_queries = scorer.n_queries(), k = scorer.n_hits(), n = scorer.n_neighbors();
  const ExpansionResult result(n_queries, expansion_width(k, scorer.window(), scorer.window()));
  const int64_t block = std::min(scorer.block(), n_queries);
  const std::unique_ptr<float[]> relevances(new float[block * k]);
  const std::unique_ptr<float[]> scores(new float[block * k * n]);
  const std::unique_ptr<bool[]> mask(new bool[block * k * n]);
  for (int64_t first = 0; first < n_queries; first += block) {
    const int64_t count = std::min(block, n_queries - first);
    scorer.run(first, count, relevances.get(), scores.get(), mask.get());
    expand_judged(scorer, first, count, {relevances.get(), scores.get(), mask.get()},
                  document_order, result);
  }
  return result.tensors();
}

}  // namespace scar_gpu
