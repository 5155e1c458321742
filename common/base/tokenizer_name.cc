#include "common/base/tokenizer_name.h"

#include "absl/strings/match.h"

namespace longhaul {

bool IsHfTokenizer(absl::string_view file) { return absl::EndsWith(file, ".json"); }

bool MayBeHfTokenizer(absl::string_view path) { return !absl::EndsWith(path, ".model"); }

}  // namespace longhaul
