#include "tests/integration/coordinator/hand_pool.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/channel.h"
#include "common/rpc/fragment_client.h"
#include "common/rpc/fragment_pull.h"
#include "common/rpc/fragment_stream.h"
#include "common/rpc/status_conversion.h"

namespace longhaul {
namespace {

void Bound(grpc::ClientContext& context) {
  context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
}

std::unique_ptr<Codec> CodecOf(CodecKind kind) { return *MakeCodec({.kind = kind}); }

SegmentBytes BytesBy(const Codec& codec) {
  return [&codec](int32_t elements) { return codec.PayloadBytes(elements); };
}

std::vector<BlockRange> AllBlocks(int64_t elements) {
  return {{0, (elements + kBlockElements - 1) / kBlockElements}};
}

}  // namespace

HandPool::HandPool(const std::string& address, const std::string& name,
                   const std::string& incarnation)
    : name_(name), incarnation_(incarnation) {
  Dial(address);
}

// A reader must not end before its call.
void HandPool::CloseStream() {
  if (!watch_) return;
  watch_context_->TryCancel();
  v1::PlanEvent ignored;
  while (watch_->Read(&ignored)) {
  }
  if (!finished_) (void)watch_->Finish();
  watch_.reset();
}

void HandPool::Dial(const std::string& address) {
  CloseStream();
  control_ = MakeChannel({.address = address});
  bulk_ = MakeChannel({.address = address, .kind = ChannelKind::kBulk});
  pools_ = v1::PoolService::NewStub(control_);
  sync_ = v1::SyncService::NewStub(control_);
}

absl::StatusOr<v1::JoinResponse> HandPool::Join() {
  v1::JoinRequest request;
  request.set_pool(name_);
  request.set_incarnation(incarnation_);
  request.set_replaces(replaces_);
  request.set_ranks(1);
  for (const char* capability :
       {"model:synthetic", "codec:fp32", "codec:e3m0", "codec:topk2", "sync:quorum"})
    request.add_capabilities(capability);
  v1::JoinResponse response;
  grpc::ClientContext context;
  Bound(context);
  LH_RETURN_IF_ERROR(FromGrpcStatus(pools_->Join(&context, request, &response)));
  job_ = response.assignment().job_id();
  return response;
}

absl::StatusOr<v1::JoinResponse> HandPool::JoinAnew(const std::string& incarnation) {
  replaces_ = std::exchange(incarnation_, incarnation);
  return Join();
}

absl::StatusOr<v1::HeartbeatResponse> HandPool::Heartbeat(const v1::HeartbeatRequest& extra) {
  v1::HeartbeatRequest request = extra;
  request.set_pool(name_);
  request.set_incarnation(incarnation_);
  request.set_job_id(job_);
  v1::HeartbeatResponse response;
  grpc::ClientContext context;
  Bound(context);
  LH_RETURN_IF_ERROR(FromGrpcStatus(pools_->Heartbeat(&context, request, &response)));
  return response;
}

absl::Status HandPool::Leave(absl::Duration return_within) {
  v1::LeaveRequest request;
  request.set_pool(name_);
  request.set_incarnation(incarnation_);
  request.mutable_return_within()->set_seconds(absl::ToInt64Seconds(return_within));
  v1::LeaveResponse response;
  grpc::ClientContext context;
  Bound(context);
  return FromGrpcStatus(pools_->Leave(&context, request, &response));
}

absl::Status HandPool::AwaitAssignment(const std::string& job) {
  const absl::Time deadline = absl::Now() + kCallTimeout;
  while (absl::Now() < deadline) {
    LH_ASSIGN_OR_RETURN(const v1::HeartbeatResponse response, Heartbeat());
    job_ = response.assignment().job_id();
    if (job_ == job) return absl::OkStatus();
    absl::SleepFor(absl::Milliseconds(5));
  }
  return absl::DeadlineExceededError("the pool is not assigned to the job");
}

absl::StatusOr<v1::Plan> HandPool::OpenPlan(const std::string& job) {
  const absl::Time deadline = absl::Now() + kCallTimeout;
  while (true) {
    absl::StatusOr<v1::Plan> plan = TryOpenPlan(job);
    if (!absl::IsUnavailable(plan.status()) || absl::Now() > deadline) return plan;
    absl::SleepFor(absl::Milliseconds(5));
  }
}

absl::StatusOr<v1::Plan> HandPool::TryOpenPlan(const std::string& job) {
  job_ = job;
  v1::WatchPlanRequest request;
  request.set_job_id(job);
  request.set_pool(name_);
  request.set_incarnation(incarnation_);
  request.set_ranks(1);
  CloseStream();
  finished_ = false;
  watch_context_ = std::make_unique<grpc::ClientContext>();
  Bound(*watch_context_);
  watch_ = sync_->WatchPlan(watch_context_.get(), request);
  LH_ASSIGN_OR_RETURN(const v1::PlanEvent first, NextEvent());
  if (!first.has_plan()) return absl::InternalError("the first event is no plan");
  return first.plan();
}

absl::StatusOr<v1::PlanEvent> HandPool::NextEvent() {
  v1::PlanEvent event;
  if (watch_->Read(&event)) return event;
  if (std::exchange(finished_, true)) return absl::OutOfRangeError("the stream has ended");
  const absl::Status status = FromGrpcStatus(watch_->Finish());
  return status.ok() ? absl::OutOfRangeError("the stream has ended") : status;
}

absl::StatusOr<v1::Commit> HandPool::NextCommit() {
  while (true) {
    LH_ASSIGN_OR_RETURN(const v1::PlanEvent event, NextEvent());
    if (event.has_commit()) return event.commit();
  }
}

HandPool::Outgoing HandPool::Encode(int fragment, int64_t version, v1::RoundKind kind,
                                    CodecKind kind_of_codec,
                                    const std::vector<float>& values) const {
  const std::unique_ptr<Codec> codec = CodecOf(kind_of_codec);
  const auto elements = static_cast<int64_t>(values.size());
  Outgoing outgoing;
  outgoing.header.set_job_id(job_);
  outgoing.header.set_pool(name_);
  outgoing.header.set_incarnation(incarnation_);
  outgoing.header.set_fragment(fragment);
  outgoing.header.set_version(version);
  outgoing.header.set_kind(kind);
  outgoing.header.set_codec(static_cast<v1::Codec>(kind_of_codec));
  outgoing.header.set_weight(1);
  outgoing.blocks = std::make_shared<CodedBlocks>();
  outgoing.blocks->segments = CutSegments(AllBlocks(elements), elements);
  outgoing.blocks->payload = AlignedBuffer(codec->FragmentBytes(elements));
  const float* in = values.data();
  uint8_t* out = outgoing.blocks->payload.data();
  for (SegmentRef& segment : outgoing.blocks->segments) {
    const size_t bytes = codec->PayloadBytes(segment.elements);
    const auto coded =
        codec->Encode({{in, static_cast<size_t>(segment.elements)}}, {}, {out, bytes});
    LH_CHECK(coded.ok(), "test values are finite");
    segment.base_exponent = coded->base_exponent;
    in += segment.elements;
    out += bytes;
  }
  return outgoing;
}

absl::StatusOr<v1::PushResponse> HandPool::Send(const Outgoing& outgoing, CodecKind kind) const {
  const std::unique_ptr<Codec> codec = CodecOf(kind);
  return PushBlocks({&bulk_, 1}, outgoing.header,
                    SourceOf(std::shared_ptr<const CodedBlocks>(outgoing.blocks), BytesBy(*codec)),
                    {.deadline = SteadyTime() + kCallTimeout});
}

absl::StatusOr<v1::PushResponse> HandPool::Push(int fragment, int64_t version, v1::RoundKind kind,
                                                CodecKind codec,
                                                const std::vector<float>& values) const {
  return Send(Encode(fragment, version, kind, codec, values), codec);
}

std::vector<v1::PushMessage> HandPool::MessagesOf(const Outgoing& outgoing, CodecKind kind) const {
  const std::unique_ptr<Codec> codec = CodecOf(kind);
  const CodedSource source =
      SourceOf(std::shared_ptr<const CodedBlocks>(outgoing.blocks), BytesBy(*codec));
  std::vector<v1::PushMessage> messages(1);
  *messages[0].mutable_header() = outgoing.header;
  messages[0].mutable_header()->set_payload_bytes(source.payload_bytes());
  for (const BlockRange& range : BlocksOf(source.segments)) {
    v1::BlockRange* blocks = messages[0].mutable_header()->add_blocks();
    blocks->set_first(range.first);
    blocks->set_count(range.count);
  }
  ChunkWriter writer(source);
  while (!writer.done()) {
    int64_t payload_bytes = 0;
    std::vector<grpc::Slice> slices;
    LH_CHECK(writer.Next(&payload_bytes).Dump(&slices).ok(), "a chunk has slices");
    std::string flat;
    for (const grpc::Slice& slice : slices)
      flat.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    LH_CHECK(messages.emplace_back().ParseFromString(flat), "a chunk is a message");
  }
  return messages;
}

absl::Status HandPool::SendRaw(const std::vector<v1::PushMessage>& messages) const {
  const std::unique_ptr<v1::SyncService::Stub> stub = v1::SyncService::NewStub(bulk_);
  grpc::ClientContext context;
  Bound(context);
  v1::PushResponse response;
  const auto writer = stub->PushFragment(&context, &response);
  for (const v1::PushMessage& message : messages) {
    // The call was refused. Finish returns the reason.
    if (!writer->Write(message)) break;
  }
  writer->WritesDone();
  return FromGrpcStatus(writer->Finish());
}

absl::StatusOr<HandPool::Pulled> HandPool::Pull(int fragment, int64_t version, bool whole,
                                                int64_t elements) const {
  v1::PullRequest request;
  request.set_job_id(job_);
  request.set_pool(name_);
  request.set_incarnation(incarnation_);
  request.set_fragment(fragment);
  request.set_version(version);
  request.set_whole(whole);
  *request.mutable_blocks() = BlocksToProto(AllBlocks(elements));
  std::unique_ptr<Codec> codec;
  const PullHeaderCheck check = [&](const v1::PullHeader& header) -> absl::StatusOr<StreamLimits> {
    LH_ASSIGN_OR_RETURN(codec, MakeCodec({.kind = static_cast<CodecKind>(header.codec())}));
    return StreamLimits{elements, codec->FragmentBytes(elements), BytesBy(*codec)};
  };
  Pulled pulled{.values = std::vector<float>(elements)};
  const auto decode = [&](const SegmentRef& segment, absl::Span<const uint8_t> payload) {
    return codec->Decode({segment.elements, segment.base_exponent, payload},
                         absl::MakeSpan(pulled.values)
                             .subspan(segment.first_block * kBlockElements, segment.elements));
  };
  FragmentPull pull(request, 1, check,
                    {.on_begin = [](int) {},
                     .on_chunk =
                         [&](int, const CodedChunk& chunk) {
                           return ForEachSegment(chunk, BytesBy(*codec), decode);
                         }});
  LH_RETURN_IF_ERROR(pull.Attempt({&bulk_, 1}, {.deadline = SteadyTime() + kCallTimeout}));
  pulled.header = pull.part(0).header;
  return pulled;
}

}  // namespace longhaul
