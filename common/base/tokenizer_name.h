// What the path of a tokenizer tells about it. One rule for programs that have the file at hand and
// for those that only pass the path on (a coordinator, for the capabilities that a job needs).
// Pure.
#pragma once

#include "absl/strings/string_view.h"

namespace longhaul {

// The names that are looked for in the folder of a tokenizer, the first one first.
inline constexpr char kHfTokenizerFile[] = "tokenizer.json",
                      kPieceTokenizerFile[] = "tokenizer.model";

// What a source's `tokenizer` may be in place of a path: one token for each byte, or the tokenizer
// of the job's model.
inline constexpr char kByteTokenizer[] = "bytes", kModelTokenizer[] = "model";

// Of a file: it is a Hugging Face tokenizer.json. Otherwise it is a SentencePiece model.
bool IsHfTokenizer(absl::string_view file);

// Of a path that may also be a folder, which is not seen from here: whether a Hugging Face
// tokenizer can be meant. A name that ends with .model is that of a SentencePiece model.
bool MayBeHfTokenizer(absl::string_view path);

}  // namespace longhaul
