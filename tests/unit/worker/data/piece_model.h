// A SentencePiece model that the real trainer makes of a few sentences. Its header cannot be seen
// together with Abseil's.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

// Writes PREFIX.model, with bytes for what it does not know; its end of sentence is token 2.
std::string TrainPieceModel(const std::string& prefix);

// What the library itself makes of the texts. Ends the test where it fails.
std::vector<std::vector<int>> EncodeByLibrary(const std::string& model,
                                              const std::vector<std::string>& texts);

}  // namespace longhaul
