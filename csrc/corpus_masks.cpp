// SCAR's decision for every row as the hit, from tensors.

#include "corpus_judge.h"
#include "operations.h"

namespace scar_gpu {

std::tuple<Tensor, Tensor> corpus_masks(const Tensor& queries, const Tensor& embeddings,
                                        const Tensor& continuity, double lam, double gamma,
                                        bool contiguous, OptionalTensor row_scale,
                                        bool return_relevance) {
  CorpusJudge judge(queries, embeddings, continuity, lam, gamma, contiguous, row_scale);
  const int64_t n_queries = queries.size(0), n_chunks = embeddings.size(0);
  const int64_t n_words = (n_chunks + 31) / 32;
  const Tensor bits = allocate({n_queries, 2 * continuity.size(0), n_words}, ScalarType::Int);
  const Tensor relevance =
      allocate({n_queries, return_relevance ? n_chunks : 0}, ScalarType::Float);
  judge.run(reinterpret_cast<uint32_t*>(data<int32_t>(bits)),
            return_relevance ? data<float>(relevance) : nullptr);
  return {bits, relevance};
}

}  // namespace scar_gpu
