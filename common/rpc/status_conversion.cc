#include "common/rpc/status_conversion.h"

#include <algorithm>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "common/base/utf8.h"
#include "google/rpc/status.pb.h"

namespace longhaul {
namespace {

// On the wire a detail grows by 4/3 and a message by at most 3. Together they stay below 8 KiB.
constexpr size_t kDetailBytesMax = 3 << 10;
constexpr size_t kMessageBytesMax = 1 << 10;

constexpr char kSilent[] = "longhaul.rpc/silent";

// gRPC's words for it: of keepalive, and of TCP_USER_TIMEOUT.
bool IsSilence(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         (status.error_message() == "keepalive watchdog timeout" ||
          status.error_message() == "recvmsg:Connection timed out");
}

// gRPC encodes the brackets of an IPv6 address.
std::string Address(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"%5B", "["}, {"%5D", "]"}});
}

// Shortens gRPC's own messages about a connection that failed:
//   failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.7:7070: Failed to connect
//     to remote host: Connection refused    ->  cannot connect to 10.0.0.7:7070: Connection refused
//   DNS resolution failed for hub:7070: C-ares status is not ARES_SUCCESS qtype=A ...: Domain name
//     not found                             ->  cannot find the address of hub:7070: Domain name
//                                               not found
//   recvmsg:Connection reset by peer        ->  Connection reset by peer
// Other messages are not changed.
std::string PlainWords(absl::string_view message) {
  constexpr absl::string_view kReceiving = "recvmsg:";
  constexpr absl::string_view kRemote = "Failed to connect to remote host: ";
  if (absl::ConsumePrefix(&message, "DNS resolution failed for ")) {
    const size_t name = message.find(": ");
    if (name == absl::string_view::npos)
      return absl::StrCat("cannot find the address of ", message);
    return absl::StrCat("cannot find the address of ", message.substr(0, name),
                        message.substr(message.rfind(": ")));
  }
  if (message == "Socket closed") return "the connection broke";
  absl::ConsumePrefix(&message, kReceiving);
  if (!absl::ConsumePrefix(&message, "failed to connect to all addresses"))
    return std::string(message);
  const size_t address = std::min(message.find("ipv4:"), message.find("ipv6:"));
  if (address == absl::string_view::npos) return absl::StrCat("cannot connect", message);
  message.remove_prefix(address + 5);
  const size_t remote = message.find(kRemote);
  // HTTP/1 answers, as the status page does.
  if (const size_t parsing = message.find("Failed parsing HTTP/2");
      parsing != absl::string_view::npos) {
    return absl::StrCat("cannot connect to ", Address(message.substr(0, parsing)),
                        "the server there does not use gRPC (a status page or metrics?)");
  }
  if (remote == absl::string_view::npos) {
    return absl::StrCat("cannot connect to ",
                        Address(absl::StrReplaceAll(message, {{kReceiving, ""}})));
  }
  return absl::StrCat("cannot connect to ", Address(message.substr(0, remote)),
                      message.substr(remote + kRemote.size()));
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message(ClipUtf8(status.message(), kMessageBytesMax));
  google::rpc::Status details;
  status.ForEachPayload([&](absl::string_view type_url, const absl::Cord& payload) {
    auto* detail = details.add_details();
    detail->set_type_url(std::string(type_url));
    detail->set_value(std::string(payload));
  });
  while (details.details_size() > 0 && details.ByteSizeLong() > kDetailBytesMax) {
    details.mutable_details()->RemoveLast();
  }
  const auto code = static_cast<grpc::StatusCode>(status.code());
  if (details.details_size() == 0) return grpc::Status(code, message);
  details.set_code(static_cast<int>(status.code()));
  // The message is in grpc-message already. A copy here would take its space twice.
  return grpc::Status(code, message, details.SerializeAsString());
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  // gRPC's words for a page over HTTP/2. Its code is made of the page's, as if the server had
  // answered the call.
  const std::string message = status.error_message();
  absl::string_view page = message;
  if (absl::ConsumePrefix(&page, "Received http2 header with status: ")) {
    return absl::UnavailableError(absl::StrCat("a web server or proxy answered (HTTP status ", page,
                                               "), which does not forward gRPC"));
  }
  if (IsSilence(status)) {
    absl::Status silent = absl::UnavailableError("the connection was silent");
    silent.SetPayload(kSilent, absl::Cord());
    return silent;
  }
  // gRPC's words when the caller's time is over. A server that ends a call says why.
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED && message == "Deadline Exceeded")
    return absl::DeadlineExceededError("no answer in time");
  const int code = status.error_code();
  const bool known = code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  absl::Status result(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                      code == grpc::StatusCode::UNAVAILABLE ? PlainWords(message) : message);
  google::rpc::Status details;
  if (details.ParseFromString(status.error_details())) {
    for (const auto& detail : details.details()) {
      result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
    }
  }
  return result;
}

bool WasSilent(const absl::Status& status) { return status.GetPayload(kSilent).has_value(); }

}  // namespace longhaul
