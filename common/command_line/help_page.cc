#include "common/command_line/help_page.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace longhaul {
namespace {

constexpr size_t kPageWidth = 100;

std::string Wrapped(const std::string& words, size_t width) {
  std::string text;
  size_t column = 0;
  for (const absl::string_view word : absl::StrSplit(words, ' ', absl::SkipEmpty())) {
    const bool breaks = column > 0 && column + 1 + word.size() > width;
    absl::StrAppend(&text, column == 0 ? "" : breaks ? "\n" : " ", word);
    column = breaks || column == 0 ? word.size() : column + 1 + word.size();
  }
  return text;
}

// Options that it cannot be given with, of those that help pages show.
std::string NotWith(const CLI::Option* option) {
  std::string names;
  for (const CLI::Option* other : option->get_excludes()) {
    if (!other->get_group().empty())
      absl::StrAppend(&names, names.empty() ? "; not with " : ", ", other->get_name());
  }
  return names;
}

}  // namespace

std::string HelpPage::make_option_opts(const CLI::Option* option) const {
  if (option->get_type_size() == 0) return "";
  const std::string preset = option->get_default_str();
  return absl::StrCat(
      option->get_type_name().empty() ? "" : " ", option->get_type_name(),
      preset.empty() ? "" : "=", preset,
      option->get_expected_max() == CLI::detail::expected_max_vector_size ? " ..." : "",
      option->get_required() ? " REQUIRED" : "");
}

std::string HelpPage::make_option_desc(const CLI::Option* option) const {
  const std::string& variable = option->get_envname();
  // A mark that becomes a space: no line ends there.
  const std::string shown = variable.empty() ? "" : absl::StrCat(" [env:\x01", variable, "]");
  return absl::StrReplaceAll(
      Wrapped(absl::StrCat(option->get_description(), NotWith(option), shown),
              kPageWidth - get_column_width()),
      {{"\x01", " "}});
}

std::string HelpPage::make_subcommand(const CLI::App* command) const {
  std::ostringstream out;
  CLI::detail::format_help(out, command->get_display_name(true),
                           Wrapped(command->get_description(), kPageWidth - get_column_width()),
                           get_column_width());
  return out.str();
}

void SetHelpPage(CLI::App& app) {
  app.formatter(std::make_shared<HelpPage>());
  app.set_version_flag("--version", absl::StrCat(app.get_name(), " ", LONGHAUL_VERSION),
                       "Show the version of this program");
}

}  // namespace longhaul
