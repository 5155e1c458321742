// How the help pages of all programs look, and --version.
#pragma once

#include <string>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"

namespace longhaul {

// Lines end at column 100. A variable that stands for an option is shown at the end of its words:
// "[env: LONGHAUL_POOL]".
class HelpPage : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* command) const override;
};

// Gives `app` this page, and --version, which shows "NAME VERSION". Call it before commands are
// added, which take their page from it.
void SetHelpPage(CLI::App& app);

}  // namespace longhaul
