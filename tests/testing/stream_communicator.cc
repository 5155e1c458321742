#include "tests/testing/stream_communicator.h"

#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/base/status_marks.h"
#include "tests/testing/thread_group.h"
#include "tests/testing/thread_subgroup.h"
#include "worker/collective/checked_communicator.h"

namespace longhaul {
namespace {

struct StreamGroup {
  StreamGroup(int size, std::shared_ptr<DeviceStreams> streams)
      : meeting(size), streams(std::move(streams)), ended(size) {}

  ThreadGroup meeting;
  const std::shared_ptr<DeviceStreams> streams;
  // By rank: the event at which its part of the last collective ends. A rank writes its own in a
  // meeting; all ranks read it between that meeting and the next one.
  std::vector<DeviceStreams::EventPtr> ended;
};

class StreamCommunicator : public CheckedCommunicator {
 public:
  StreamCommunicator(int rank, int size, std::shared_ptr<StreamGroup> group,
                     std::shared_ptr<void> stream)
      : CheckedCommunicator(rank, size), group_(std::move(group)), own_stream_(std::move(stream)) {}
  ~StreamCommunicator() override { group_->meeting.Depart(rank()); }

  void Abort(absl::string_view reason) override { group_->meeting.Abort(reason); }

 private:
  absl::Status DoAllReduce(absl::string_view name, absl::Span<float> data,
                           absl::Span<const Part> parts, const CallOptions& options) override {
    return AllReduce(name, data, parts, options);
  }
  absl::Status DoAllReduce(absl::string_view name, absl::Span<double> data,
                           absl::Span<const Part> parts, const CallOptions& options) override {
    return AllReduce(name, data, parts, options);
  }

  absl::Status DoReduceScatter(absl::Span<const float> input, absl::Span<const Part> parts,
                               absl::Span<float> output, const CallOptions& options) override {
    const Deadlined call(options);
    LH_RETURN_IF_ERROR(
        Together({"reduce-scatter", SizesOf(parts)}, input.data(), call,
                 [&](void* stream) { return Sum(parts[rank()], output.data(), stream); }));
    return Finish("reduce-scatter", call);
  }

  absl::Status DoAllGather(absl::Span<const std::byte> input, absl::Span<const Part> parts,
                           absl::Span<std::byte> output, const CallOptions& options) override {
    const Deadlined call(options);
    LH_RETURN_IF_ERROR(
        Together({"all-gather", SizesOf(parts)}, input.data(), call, [&](void* stream) {
          return FromEach(stream, [&](int r) {
            return Move{output.data() + parts[r].offset, InputOf(r), parts[r].size};
          });
        }));
    return Finish("all-gather", call);
  }

  absl::Status DoBroadcast(absl::Span<std::byte> data, int root,
                           const CallOptions& options) override {
    const Deadlined call(options);
    LH_RETURN_IF_ERROR(Together(
        {"broadcast", {static_cast<int64_t>(data.size()), root}}, data.data(), call,
        [&](void* stream) {
          return MoveOn(stream, {data.data(), InputOf(root), static_cast<int64_t>(data.size())});
        }));
    return Finish("broadcast", call);
  }

  absl::Status DoAllToAll(absl::Span<const std::byte> input, absl::Span<const Part> send_parts,
                          absl::Span<std::byte> output, absl::Span<const Part> receive_parts,
                          const CallOptions& options) override {
    const Deadlined call(options);
    LH_RETURN_IF_ERROR(
        Together({"all-to-all", {}, nullptr, send_parts, receive_parts}, input.data(), call,
                 [&](void* stream) {
                   return FromEach(stream, [&](int r) {
                     return Move{output.data() + receive_parts[r].offset,
                                 InputOf(r) + group_->meeting.call(r).send_parts[rank()].offset,
                                 receive_parts[r].size};
                   });
                 }));
    return Finish("all-to-all", call);
  }

  absl::Status DoBarrier(const CallOptions& options) override {
    LH_RETURN_IF_ERROR(group_->meeting.Meet(rank(), {"barrier"}, options.timeout));
    group_->meeting.Leave();
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(int new_rank, absl::Span<const int> members,
                                                        const CallOptions& options) override {
    const int size = static_cast<int>(members.size());
    LH_ASSIGN_OR_RETURN(std::shared_ptr<void> stream, group_->streams->NewStream());
    LH_ASSIGN_OR_RETURN(
        std::shared_ptr<StreamGroup> group,
        MakeSubgroup(group_->meeting, rank(), members,
                     std::make_shared<StreamGroup>(size, group_->streams), options.timeout));
    return std::make_unique<StreamCommunicator>(new_rank, size, std::move(group),
                                                std::move(stream));
  }

  // What a rank shows in a meeting.
  struct Shown {
    const void* input = nullptr;
    // The input is ready.
    DeviceStreams::EventPtr ready;
  };
  struct Deadlined {
    explicit Deadlined(const CallOptions& options)
        : stream(options.stream), deadline(SteadyTime() + options.timeout) {}
    void* stream;
    absl::Time deadline;
  };
  struct Move {
    std::byte* to;
    const std::byte* from;
    int64_t bytes;
  };

  const Shown& ShownBy(int rank) const {
    return *static_cast<const Shown*>(group_->meeting.call(rank).input);
  }
  const std::byte* InputOf(int rank) const {
    return static_cast<const std::byte*>(ShownBy(rank).input);
  }
  void* StreamOf(const Deadlined& call) const {
    return call.stream != nullptr ? call.stream : own_stream_.get();
  }

  absl::Status MoveOn(void* stream, const Move& move) const {
    if (move.bytes == 0 || move.to == move.from) return absl::OkStatus();
    return group_->streams->Copy(stream, move.to, move.from, move.bytes);
  }
  template <typename MoveOf>
  absl::Status FromEach(void* stream, MoveOf&& move_of) const {
    for (int r = 0; r < size(); ++r) LH_RETURN_IF_ERROR(MoveOn(stream, move_of(r)));
    return absl::OkStatus();
  }
  // The rank-order sum of `part` of every rank's input.
  template <typename T>
  absl::Status Sum(const Part& part, T* output, void* stream) const {
    if (part.size == 0) return absl::OkStatus();
    std::vector<const T*> sources;
    for (int r = 0; r < size(); ++r)
      sources.push_back(static_cast<const T*>(ShownBy(r).input) + part.offset);
    return group_->streams->Sum(stream, absl::Span<const T* const>(sources), output, part.size);
  }

  // Queues this rank's part after everything that the ranks have queued so far. Later works of the
  // stream run after every rank's part, since those read this rank's input.
  absl::Status Together(ThreadGroup::Call meeting, const void* input, const Deadlined& call,
                        absl::FunctionRef<absl::Status(void* stream)> queue) {
    DeviceStreams& streams = *group_->streams;
    void* const stream = StreamOf(call);
    Shown own{.input = input};
    LH_ASSIGN_OR_RETURN(own.ready, streams.Record(stream));
    meeting.input = &own;
    LH_RETURN_IF_ERROR(
        group_->meeting.Meet(rank(), std::move(meeting), call.deadline - SteadyTime()));
    const absl::Status queued = [&]() -> absl::Status {
      for (int r = 0; r < size(); ++r)
        if (r != rank()) LH_RETURN_IF_ERROR(streams.Block(stream, ShownBy(r).ready));
      LH_RETURN_IF_ERROR(queue(stream));
      LH_ASSIGN_OR_RETURN(group_->ended[rank()], streams.Record(stream));
      return absl::OkStatus();
    }();
    if (!queued.ok()) group_->meeting.Abort(queued.message());
    group_->meeting.Leave();
    LH_RETURN_IF_ERROR(queued);
    for (int r = 0; r < size(); ++r)
      if (r != rank()) LH_RETURN_IF_ERROR(streams.Block(stream, group_->ended[r]));
    return absl::OkStatus();
  }

  // Waits, except if the caller's own stream does.
  absl::Status Finish(absl::string_view operation, const Deadlined& call) {
    if (call.stream != nullptr) return absl::OkStatus();
    LH_ASSIGN_OR_RETURN(const DeviceStreams::EventPtr end,
                        group_->streams->Record(own_stream_.get()));
    const absl::Status status = group_->streams->Wait(end, call.deadline);
    if (status.ok()) return status;
    group_->meeting.Abort(status.message());
    return WithContext(operation, status);
  }

  // Each rank sums its own part in place, since no other rank reads it. Then each rank copies the
  // others' parts.
  template <typename T>
  absl::Status AllReduce(absl::string_view name, absl::Span<T> data, absl::Span<const Part> parts,
                         const CallOptions& options) {
    const auto count = static_cast<int64_t>(data.size());
    const Deadlined call(options);
    LH_RETURN_IF_ERROR(Together({name, {count}}, data.data(), call, [&](void* stream) {
      return Sum(parts[rank()], data.data() + parts[rank()].offset, stream);
    }));
    LH_RETURN_IF_ERROR(Together({name, {count}}, data.data(), call, [&](void* stream) {
      return FromEach(stream, [&](int r) {
        const auto offset = parts[r].offset * static_cast<int64_t>(sizeof(T));
        return Move{reinterpret_cast<std::byte*>(data.data()) + offset, InputOf(r) + offset,
                    parts[r].size * static_cast<int64_t>(sizeof(T))};
      });
    }));
    return Finish(name, call);
  }

  const std::shared_ptr<StreamGroup> group_;
  // For calls that name no stream.
  const std::shared_ptr<void> own_stream_;
};

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> MakeStreamCommunicators(
    int size, std::shared_ptr<DeviceStreams> streams) {
  LH_CHECK(size > 0 && size <= DeviceStreams::kSourcesMax, "so many ranks share no device");
  auto group = std::make_shared<StreamGroup>(size, std::move(streams));
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < size; ++rank) {
    LH_ASSIGN_OR_RETURN(std::shared_ptr<void> stream, group->streams->NewStream());
    communicators.push_back(
        std::make_unique<StreamCommunicator>(rank, size, group, std::move(stream)));
  }
  return communicators;
}

}  // namespace longhaul
