#include "common/rpc/status_conversion.h"

#include <string>

#include "absl/strings/cord.h"
#include "common/base/utf8.h"
#include "google/rpc/status.pb.h"

namespace longhaul {
namespace {

// On the wire a detail grows by 4/3 and a message by 3 at most: together below 8 KiB.
constexpr size_t kDetailBytesMax = 3 << 10;
constexpr size_t kMessageBytesMax = 1 << 10;

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
  // The message is in grpc-message already; a copy here would take its room twice.
  return grpc::Status(code, message, details.SerializeAsString());
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const int code = status.error_code();
  const bool known = code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  absl::Status result(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                      status.error_message());
  google::rpc::Status details;
  if (details.ParseFromString(status.error_details())) {
    for (const auto& detail : details.details()) {
      result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
    }
  }
  return result;
}

}  // namespace longhaul
