#include "tests/unit/worker/data/piece_model.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <cstdlib>
#include <fstream>

namespace longhaul {

std::string TrainPieceModel(const std::string& prefix) {
  std::ofstream text(prefix + ".txt");
  const char* const nouns[] = {"river", "mountain", "harbour", "library", "station", "garden"};
  const char* const verbs[] = {"crosses", "remembers", "follows", "becomes", "answers"};
  for (int i = 0; i < 300; ++i) {
    text << "the " << nouns[i % 6] << " " << verbs[i % 5] << " the old " << nouns[(i * 5 + 1) % 6]
         << " number " << i << "\n";
  }
  text.close();
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      "--input=" + prefix + ".txt --model_prefix=" + prefix +
      " --vocab_size=400 --byte_fallback=true --hard_vocab_limit=false --minloglevel=2 "
      "--num_threads=1");
  if (!status.ok()) std::abort();
  return prefix + ".model";
}

std::vector<std::vector<int>> EncodeByLibrary(const std::string& model,
                                              const std::vector<std::string>& texts) {
  sentencepiece::SentencePieceProcessor processor;
  if (!processor.Load(model).ok()) std::abort();
  std::vector<std::vector<int>> tokens;
  for (const std::string& text : texts) tokens.push_back(processor.EncodeAsIds(text));
  return tokens;
}

}  // namespace longhaul
