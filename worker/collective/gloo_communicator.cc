#include "worker/collective/gloo_communicator.h"

#include <signal.h>

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/status_marks.h"
#include "worker/collective/checked_communicator.h"
#include "worker/collective/gloo_exchange.h"
#include "worker/collective/gloo_mesh.h"
#include "worker/collective/gloo_symbols.h"
#include "worker/collective/steady_deadline.h"
#include "worker/collective/subgroup_rendezvous.h"

namespace longhaul {
namespace {

// Messages of different kinds have different slots. So ranks that call different operations wait
// until the deadline, and do not take each other's bytes.
enum class Kind : uint64_t {
  kAllReduce,
  kAllReduceDouble,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kAllToAll,
  kBarrier,
};

class GlooCommunicator : public CheckedCommunicator {
 public:
  GlooCommunicator(std::unique_ptr<GlooMesh> mesh, std::string hostname, ThreadTeam* team)
      : CheckedCommunicator(mesh->rank(), mesh->size()),
        mesh_(std::move(mesh)),
        hostname_(std::move(hostname)),
        team_(team) {}

  void Abort(absl::string_view reason) override { mesh_->Abort(reason); }
  // Waits for all ranks. Does not count as an operation.
  absl::Status MeetPeers(const CallOptions& options) { return DoBarrier(options); }

 private:
  absl::Status DoAllReduce(absl::string_view name, absl::Span<float> data,
                           absl::Span<const Part> parts, const CallOptions& options) override {
    return AllReduce(name, Kind::kAllReduce, data, parts, options);
  }
  absl::Status DoAllReduce(absl::string_view name, absl::Span<double> data,
                           absl::Span<const Part> parts, const CallOptions& options) override {
    return AllReduce(name, Kind::kAllReduceDouble, data, parts, options);
  }

  absl::Status DoReduceScatter(absl::Span<const float> input, absl::Span<const Part> parts,
                               absl::Span<float> output, const CallOptions& options) override {
    GlooExchange exchange = NextExchange(Kind::kReduceScatter, options);
    return Annotate("reduce-scatter", exchange.ReduceScatter(input.data(), parts, output.data()));
  }

  absl::Status DoAllGather(absl::Span<const std::byte> input, absl::Span<const Part> parts,
                           absl::Span<std::byte> output, const CallOptions& options) override {
    std::byte* own = output.data() + parts[rank()].offset;
    if (!input.empty() && own != input.data()) std::memcpy(own, input.data(), input.size());
    GlooExchange exchange = NextExchange(Kind::kAllGather, options);
    const std::vector<Part> sends(size(), parts[rank()]);
    return Annotate("all-gather", exchange.Swap(output.data(), sends, output.data(), parts));
  }

  absl::Status DoBroadcast(absl::Span<std::byte> data, int root,
                           const CallOptions& options) override {
    const int64_t bytes = data.size();
    std::vector<Part> sends(size()), receives(size());
    if (rank() == root) {
      sends.assign(size(), {0, bytes});
    } else {
      receives[root] = {0, bytes};
    }
    GlooExchange exchange = NextExchange(Kind::kBroadcast, options);
    return Annotate("broadcast", exchange.Swap(data.data(), sends, data.data(), receives));
  }

  absl::Status DoAllToAll(absl::Span<const std::byte> input, absl::Span<const Part> send_parts,
                          absl::Span<std::byte> output, absl::Span<const Part> receive_parts,
                          const CallOptions& options) override {
    const Part from = send_parts[rank()], to = receive_parts[rank()];
    if (from.size > 0)
      std::memcpy(output.data() + to.offset, input.data() + from.offset, from.size);
    GlooExchange exchange = NextExchange(Kind::kAllToAll, options);
    return Annotate("all-to-all",
                    exchange.Swap(input.data(), send_parts, output.data(), receive_parts));
  }

  absl::Status DoBarrier(const CallOptions& options) override {
    const std::vector<std::byte> token(1);
    std::vector<std::byte> tokens(size());
    const std::vector<Part> sends(size(), Part{0, 1});
    GlooExchange exchange = NextExchange(Kind::kBarrier, options);
    return Annotate("barrier",
                    exchange.Swap(token.data(), sends, tokens.data(), EvenParts(size(), size())));
  }

  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(int new_rank, absl::Span<const int> members,
                                                        const CallOptions& options) override {
    SubgroupRendezvous rendezvous(*this, {members.begin(), members.end()});
    return MakeGlooCommunicator({.rank = new_rank,
                                 .size = static_cast<int>(members.size()),
                                 .hostname = hostname_,
                                 .rendezvous = &rendezvous,
                                 .timeout = options.timeout,
                                 .team = team_});
  }

  uint64_t NextNumber(Kind kind) {
    return (uint64_t{++exchanges_} << 3) | static_cast<uint64_t>(kind);
  }

  GlooExchange NextExchange(Kind kind, const CallOptions& options) {
    return GlooExchange(*mesh_, NextNumber(kind), SteadyDeadlineIn(options.timeout), scratch_,
                        team_);
  }

  absl::Status Annotate(absl::string_view operation, const absl::Status& status) const {
    if (status.ok()) return status;
    return WithContext(absl::StrCat(operation, " (operation ", traffic().operations + 1, ")"),
                       status);
  }

  template <typename T>
  absl::Status AllReduce(absl::string_view name, Kind kind, absl::Span<T> data,
                         absl::Span<const Part> parts, const CallOptions& options) {
    const uint64_t gathering = NextNumber(kind);
    GlooExchange exchange = NextExchange(kind, options);
    return Annotate(name, exchange.AllReduce(data.data(), parts, gathering));
  }

  const std::unique_ptr<GlooMesh> mesh_;
  const std::string hostname_;
  // May be null.
  ThreadTeam* const team_;
  // Equal on all ranks. It may wrap around, since only the last few operations are in progress.
  uint32_t exchanges_ = 0;
  std::vector<std::byte> scratch_;
};

absl::Status CheckSigpipe() {
  struct sigaction action {};
  if (sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) {
    return absl::FailedPreconditionError(
        "SIGPIPE would end this process when a peer dies: ignore it at start");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> MakeGlooCommunicator(
    const GlooCommunicatorOptions& options) {
  if (options.rank < 0 || options.rank >= options.size || options.rendezvous == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("gloo: rank ", options.rank, " of ", options.size));
  }
  LH_RETURN_IF_ERROR(CheckGlooSymbols());
  LH_RETURN_IF_ERROR(CheckSigpipe());
  LH_ASSIGN_OR_RETURN(auto mesh, GlooMesh::Connect(options.rank, options.size, options.hostname,
                                                   *options.rendezvous, options.timeout));
  auto communicator =
      std::make_unique<GlooCommunicator>(std::move(mesh), options.hostname, options.team);
  LH_RETURN_IF_ERROR(communicator->MeetPeers({.timeout = options.timeout}));
  return communicator;
}

}  // namespace longhaul
