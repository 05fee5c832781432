// Exact top-k, from tensors.

#include "operations.h"
#include "searcher.h"

namespace scar_gpu {

std::tuple<Tensor, Tensor> search(const Tensor& queries, const Tensor& embeddings, int64_t k,
                                  OptionalTensor row_scale, OptionalTensor row_ranges,
                                  OptionalTensor min_scores) {
  Searcher searcher(queries, embeddings, k, row_scale, row_ranges, min_scores);
  const Tensor ids = allocate({queries.size(0), k}, ScalarType::Long);
  const Tensor scores = allocate({queries.size(0), k}, ScalarType::Float);
  searcher.run(data<int64_t>(ids), data<float>(scores));
  return {ids, scores};
}

}  // namespace scar_gpu
