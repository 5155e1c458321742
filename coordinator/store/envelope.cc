#include "coordinator/store/envelope.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace longhaul {

bool IsOtherFormat(absl::string_view magic, absl::string_view found) {
  const size_t last = magic.size() - 1;
  return found.size() == magic.size() && found != magic &&
         found.substr(0, last) == magic.substr(0, last) && absl::ascii_isdigit(found[last]);
}

absl::Status OtherFormat(absl::string_view magic, absl::string_view found, absl::string_view path) {
  return absl::FailedPreconditionError(absl::StrCat(
      path, " has the format ", found, ", this program ", magic,
      ": it was made by another version of the program, and only that version can use it"));
}

absl::StatusOr<absl::string_view> OpenEnvelope(absl::string_view magic, absl::string_view bytes,
                                               absl::string_view path) {
  WireReader in(bytes);
  const absl::string_view found = in.Bytes(magic.size());
  if (IsOtherFormat(magic, found)) return OtherFormat(magic, found, path);
  const absl::string_view message = in.String();
  const size_t covered = bytes.size() - in.rest().size();
  const Digest128 digest = in.Digest();
  if (in.ok() && found == magic && digest == DigestOf(bytes.substr(0, covered))) return message;
  return absl::DataLossError(absl::StrCat(path, " is damaged at byte 0: its head is not valid"));
}

}  // namespace longhaul
