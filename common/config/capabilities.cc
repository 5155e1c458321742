#include "common/config/capabilities.h"

#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace longhaul {

std::vector<std::string> CapabilitiesNeeded(const v1::JobSpec& spec) {
  const auto codec = [](const v1::CodecSpec& spec) {
    return absl::StrCat("codec:", absl::AsciiStrToLower(v1::Codec_Name(spec.codec())));
  };
  std::set<std::string> needs = {codec(spec.sync().up()), codec(spec.sync().down())};
  switch (spec.model().kind_case()) {
    case v1::ModelSpec::kTransformer:
      needs.insert("model:transformer");
      break;
    case v1::ModelSpec::kSynthetic:
      needs.insert("model:synthetic");
      break;
    case v1::ModelSpec::kGraphSage:
      needs.insert("model:graph_sage");
      break;
    case v1::ModelSpec::KIND_NOT_SET:
      break;
  }
  // The synthetic model is the exchange alone.
  if (!spec.model().has_transformer()) return {needs.begin(), needs.end()};
  if (!spec.partition().preset().empty())
    needs.insert(absl::StrCat("partition:", spec.partition().preset()));
  if (spec.train().precision() != v1::PRECISION_UNSPECIFIED) {
    needs.insert(absl::StrCat(
        "precision:", absl::AsciiStrToLower(v1::Precision_Name(spec.train().precision()))));
  }
  if (spec.data().has_text()) needs.insert("data:text");
  if (spec.data().has_tokens()) needs.insert("data:tokens");
  return {needs.begin(), needs.end()};
}

}  // namespace longhaul
