#include "coordinator/cli/spec_init.h"

#include "absl/strings/str_cat.h"
#include "common/base/nearest_name.h"

namespace longhaul {
extern const unsigned char kFile_quickstart_yaml[];
extern const unsigned char kFile_two_regions_yaml[];
}  // namespace longhaul

namespace longhaul::cli {
namespace {

struct SpecTemplate {
  const char* name;
  const unsigned char* text;  // Ends with a zero.
};

const SpecTemplate kSpecTemplates[] = {{"quickstart", kFile_quickstart_yaml},
                                       {"two-regions", kFile_two_regions_yaml}};

}  // namespace

std::vector<std::string> SpecTemplateNames() {
  std::vector<std::string> names;
  for (const SpecTemplate& entry : kSpecTemplates) names.push_back(entry.name);
  return names;
}

Outcome SpecInit(const std::string& from) {
  for (const SpecTemplate& entry : kSpecTemplates) {
    if (from != entry.name) continue;
    const std::string text(reinterpret_cast<const char*>(entry.text));
    return {Json{{"from", from}, {"text", text}}, text};
  }
  return UsageError(absl::StrCat("there is no template ", from),
                    NearestNameHint(from, SpecTemplateNames()));
}

}  // namespace longhaul::cli
