#include "coordinator/cli/transfer_progress.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/bytes_text.h"
#include "coordinator/cli/text.h"

namespace longhaul::cli {

void TransferProgress::Show(absl::string_view what, int64_t done, int64_t all) {
  Connected();
  const absl::Time now = environment_.clock.Now();
  const bool terminal = environment_.err_is_terminal;
  if (now - shown_at_ < (terminal ? absl::Milliseconds(200) : absl::Seconds(5))) return;
  const bool first = std::exchange(shown_at_, now) == absl::InfinitePast();
  // Without a terminal lines stay, so a short transfer shows none.
  if (first && !terminal) return;
  const double part = all == 0 ? 1 : static_cast<double>(done) / static_cast<double>(all);
  const std::string text = absl::StrFormat("%s%d %%: %s of %s", what, static_cast<int>(100 * part),
                                           BytesText(done), BytesText(all));
  if (!terminal) {
    environment_.err << text << std::endl;
    return;
  }
  // The last column stays free: a cursor behind it wraps on some terminals.
  environment_.err << "\r\x1b[K" << ClipColumns(text, environment_.columns() - 1) << std::flush;
  drawn_ = true;
}

void TransferProgress::Lost(const absl::Status& why, const std::string& address) {
  if (std::exchange(lost_, true)) return;
  Say(absl::StrCat("connection lost (", Printable(why.message()), "); continuing with ", address));
}

void TransferProgress::Connected() {
  if (std::exchange(lost_, false)) Say("connected again");
}

void TransferProgress::Say(const std::string& line) {
  End();
  environment_.err << line << std::endl;
}

void TransferProgress::End() {
  if (std::exchange(drawn_, false)) environment_.err << "\r\x1b[K" << std::flush;
}

}  // namespace longhaul::cli
