// Client and server of the bulk streams, over real gRPC on this machine.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/channel.h"
#include "common/rpc/fragment_client.h"
#include "common/rpc/fragment_pull.h"
#include "common/rpc/fragment_server.h"
#include "common/rpc/server.h"
#include "common/rpc/status_conversion.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "tests/unit/common/rpc/bulk_testing.h"

namespace longhaul {

// In elements: below, at and above a block, a tile, a chunk; 8 MiB.
inline const std::vector<int64_t> kSizes = {1, 127, 128, 129, 65536, 65537, 300'001, 2 << 20};

// A server and channels to it. Tests set handlers and then call Serve. The members outlive the
// server's work.
class BulkTest : public ::testing::Test {
 protected:
  // Accepts every push of `elements` and keeps it. Answers every pull with `blocks`.
  void Serve(int64_t elements, StreamAdmission::Options admission = {},
             Executor::Options executor = {}) {
    admission_.emplace(admission);
    executor_.emplace(executor);
    const StreamLimits limits{elements, int64_t{1} << 30, FourBytesEach};
    if (!service_.push.on_header) {
      service_.push.on_header = [limits](const v1::PushHeader&) { return limits; };
    }
    if (!service_.push.on_chunk) {
      service_.push.on_chunk = [this](const v1::PushHeader& header, const CodedChunk& chunk) {
        absl::MutexLock lock(&mutex_);
        arriving_[header.blocks(0).first()].Add(chunk);
        return absl::OkStatus();
      };
    }
    if (!service_.push.on_complete) {
      service_.push.on_complete = [this](const v1::PushHeader& header) {
        absl::MutexLock lock(&mutex_);
        headers_.push_back(header);
        received_.push_back(std::move(arriving_[header.blocks(0).first()]).Blocks());
        arriving_.erase(header.blocks(0).first());
        v1::PushResponse response;
        response.set_contribution_complete(header.blocks(0).first() == 0);
        return response;
      };
    }
    check_ = [limits](const v1::PullHeader&) { return limits; };
    service_.resources = {.executor = &*executor_, .admission = &*admission_, .stall = stall_};
    auto server = Server::Start({.address = "127.0.0.1:0"}, {&service_});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    for (int i = 0; i < 3; ++i) {
      channels_.push_back(MakeChannel({.address = server_->address(), .kind = ChannelKind::kBulk}));
    }
  }

  BulkChannels OneChannel() const { return BulkChannels(channels_).subspan(0, 1); }
  BulkCall Call(std::stop_token stop = {}) {
    return {.deadline = SteadyTime() + absl::Seconds(60), .stop = std::move(stop), .wire = &wire_};
  }
  absl::StatusOr<v1::PushResponse> Push(BulkChannels channels,
                                        std::shared_ptr<const CodedBlocks> blocks,
                                        std::stop_token stop = {}) {
    v1::PushHeader header;
    header.set_job_id("job");
    header.set_fragment(3);
    return PushBlocks(channels, header, SourceOf(std::move(blocks), FourBytesEach), Call(stop));
  }
  // The parts of one attempt, in the order of their blocks.
  struct Pulled {
    v1::PullHeader header;
    CodedBlocks blocks;
  };
  absl::StatusOr<std::vector<Pulled>> Pull(BulkChannels channels,
                                           const std::vector<BlockRange>& blocks,
                                           std::stop_token stop = {}) {
    v1::PullRequest request;
    request.set_fragment(3);
    *request.mutable_blocks() = BlocksToProto(blocks);
    std::vector<ReceivedBlocks> received(channels.size());
    FragmentPull pull(request, static_cast<int>(channels.size()), check_,
                      {.on_begin = [](int) {},
                       .on_chunk =
                           [&](int part, const CodedChunk& chunk) {
                             received[part].Add(chunk);
                             return absl::OkStatus();
                           }});
    const absl::Status status = pull.Attempt(channels, Call(stop));
    if (!status.ok()) return status;
    std::vector<Pulled> parts;
    for (int i = 0; i < pull.parts(); ++i) {
      parts.push_back({pull.part(i).header, std::move(received[i]).Blocks()});
    }
    return parts;
  }

  // Writes these messages unchanged, then closes the stream, or leaves it open.
  absl::Status RawPush(const std::vector<std::string>& messages, bool cancel = false,
                       absl::Time deadline = absl::Now() + absl::Seconds(60),
                       bool stand_still = false) {
    grpc::ClientContext context;
    if (deadline != absl::InfiniteFuture()) context.set_deadline(absl::ToChronoTime(deadline));
    const auto channel = MakeChannel({.address = server_->address()});
    v1::PushResponse response;
    const std::unique_ptr<grpc::ClientWriter<grpc::ByteBuffer>> writer(
        grpc::internal::ClientWriterFactory<grpc::ByteBuffer>::Create(
            channel.get(),
            grpc::internal::RpcMethod("/longhaul.v1.SyncService/PushFragment",
                                      grpc::internal::RpcMethod::CLIENT_STREAMING),
            &context, &response));
    for (const std::string& message : messages) {
      if (!writer->Write(ToBuffer(message))) break;
    }
    if (stand_still) return FromGrpcStatus(writer->Finish());
    if (cancel) {
      header_seen_.WaitForNotification();
      context.TryCancel();
    } else {
      writer->WritesDone();
    }
    return FromGrpcStatus(writer->Finish());
  }
  static std::string HeaderOf(const CodedBlocks& blocks) {
    v1::PushMessage first;
    first.mutable_header()->set_fragment(3);
    first.mutable_header()->set_payload_bytes(blocks.payload.size());
    *first.mutable_header()->mutable_blocks() = BlocksToProto(BlocksOf(blocks.segments));
    return first.SerializeAsString();
  }

  absl::Mutex mutex_;
  std::vector<v1::PushHeader> headers_;
  // By the first block of the stream.
  std::map<int64_t, ReceivedBlocks> arriving_;
  std::vector<CodedBlocks> received_;
  // For handlers that wait: they report that they are inside, and wait until they may go on.
  // Handlers use them until the executor has ended.
  absl::Notification inside_, go_;
  absl::Notification header_seen_, ended_;
  // The server's limits.
  StallLimits stall_;
  TestSyncService service_;
  std::optional<StreamAdmission> admission_;
  // It ends after the server, and before the objects that its tasks use.
  std::optional<Executor> executor_;
  std::unique_ptr<Server> server_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  PullHeaderCheck check_;
  WireBytes wire_;
};

}  // namespace longhaul
