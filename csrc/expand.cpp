// The union of hits and admitted neighbours, from tensors.

#include "expander.h"
#include "operations.h"

namespace scar_gpu {

ExpansionResult::ExpansionResult(int64_t n_queries, int64_t width)
    : width_(width),
      tensors_(allocate({n_queries, width}, ScalarType::Long),
               allocate({n_queries, width}, ScalarType::Float),
               allocate({n_queries, width}, ScalarType::Int),
               allocate({n_queries}, ScalarType::Int)),
      ids_(data<int64_t>(std::get<0>(tensors_))),
      scores_(data<float>(std::get<1>(tensors_))),
      anchors_(data<int32_t>(std::get<2>(tensors_))),
      lengths_(data<int32_t>(std::get<3>(tensors_))) {}

ExpansionTensors expand(const Tensor& hits, const Tensor& relevance, const Tensor& scores,
                        const Tensor& mask, bool document_order) {
  const Ids ids(hits, "hits");
  const View<float, 2> relevances(relevance, "relevance");
  const View<float, 3> all_scores(scores, "scores");
  const View<bool, 3> masks(mask, "mask");
  const int64_t n_queries = ids.size(0), k = ids.size(1), n_neighbors = all_scores.size(2);
  check(relevances.size(0) == n_queries && relevances.size(1) == k,
        "relevance must have the shape of hits");
  check(all_scores.size(0) == n_queries && all_scores.size(1) == k && n_neighbors % 2 == 0,
        "scores must be [B, K, 2W] for hits of [B, K]");
  check(masks.size(0) == n_queries && masks.size(1) == k && masks.size(2) == n_neighbors,
        "mask must have the shape of scores");

  const int64_t window = n_neighbors / 2;
  const ExpansionResult result(n_queries, expansion_width(k, window, window));
  parallel_for(n_queries, 64, [&](int64_t begin, int64_t end) {
    Expander expander(k, window, window);
    for (int64_t b = begin; b < end; ++b)
      expander.run(
          [&](int64_t i) { return ids(b, i); }, [&](int64_t i) { return relevances(b, i); },
          [&](int64_t i, int64_t j) { return all_scores(b, i, j); },
          [&](int64_t i, int64_t j) { return masks(b, i, j); }, document_order, result.row(b));
  });
  return result.tensors();
}

}  // namespace scar_gpu
