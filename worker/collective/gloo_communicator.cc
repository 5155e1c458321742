#include "worker/collective/gloo_communicator.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/collective/call_checks.h"
#include "worker/collective/gloo_exchange.h"
#include "worker/collective/gloo_mesh.h"
#include "worker/collective/gloo_symbols.h"
#include "worker/collective/subgroup_rendezvous.h"
#include "worker/collective/traffic_meter.h"

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

class GlooCommunicator : public Communicator {
 public:
  GlooCommunicator(std::unique_ptr<GlooMesh> mesh, std::string hostname, ThreadTeam* team)
      : mesh_(std::move(mesh)), hostname_(std::move(hostname)), team_(team) {}

  int rank() const override { return mesh_->rank(); }
  int size() const override { return mesh_->size(); }

  absl::Status AllReduceSum(absl::Span<float> data, const CallOptions& options) override {
    return AllReduce("all-reduce", Kind::kAllReduce, data, options);
  }
  absl::Status AllReduceSum(absl::Span<double> data, const CallOptions& options) override {
    return AllReduce("all-reduce of doubles", Kind::kAllReduceDouble, data, options);
  }

  absl::Status ReduceScatterSum(absl::Span<const float> input, absl::Span<const int64_t> counts,
                                absl::Span<float> output, const CallOptions& options) override {
    std::vector<Part> parts;
    LH_RETURN_IF_ERROR(
        CheckReduceScatter(*this, input.size(), counts, output.size(), options, &parts));
    GlooExchange exchange = NextExchange(Kind::kReduceScatter, options);
    LH_RETURN_IF_ERROR(
        Annotate("reduce-scatter", exchange.ReduceScatter(input.data(), parts, output.data())));
    traffic_.AddReduceScatter(input.size() * sizeof(float), output.size() * sizeof(float), size());
    return absl::OkStatus();
  }

  absl::Status AllGather(absl::Span<const std::byte> input, absl::Span<const Part> parts,
                         absl::Span<std::byte> output, const CallOptions& options) override {
    LH_RETURN_IF_ERROR(CheckAllGather(*this, input.size(), parts, output.size(), options));
    int64_t total = 0;
    for (const Part& part : parts) total += part.size;
    std::byte* own = output.data() + parts[rank()].offset;
    if (!input.empty() && own != input.data()) std::memcpy(own, input.data(), input.size());
    GlooExchange exchange = NextExchange(Kind::kAllGather, options);
    const std::vector<Part> sends(size(), parts[rank()]);
    LH_RETURN_IF_ERROR(
        Annotate("all-gather", exchange.Swap(output.data(), sends, output.data(), parts)));
    traffic_.AddAllGather(total, input.size(), size());
    return absl::OkStatus();
  }

  absl::Status Broadcast(absl::Span<std::byte> data, int root,
                         const CallOptions& options) override {
    LH_RETURN_IF_ERROR(CheckBroadcast(*this, root, options));
    const int64_t bytes = data.size();
    std::vector<Part> sends(size()), receives(size());
    if (rank() == root) {
      sends.assign(size(), {0, bytes});
    } else {
      receives[root] = {0, bytes};
    }
    GlooExchange exchange = NextExchange(Kind::kBroadcast, options);
    LH_RETURN_IF_ERROR(
        Annotate("broadcast", exchange.Swap(data.data(), sends, data.data(), receives)));
    traffic_.AddBroadcast(bytes, rank() == root, size());
    return absl::OkStatus();
  }

  absl::Status AllToAll(absl::Span<const std::byte> input, absl::Span<const Part> send_parts,
                        absl::Span<std::byte> output, absl::Span<const Part> receive_parts,
                        const CallOptions& options) override {
    LH_RETURN_IF_ERROR(
        CheckAllToAll(*this, input.size(), send_parts, output.size(), receive_parts, options));
    const Part from = send_parts[rank()], to = receive_parts[rank()];
    if (from.size > 0)
      std::memcpy(output.data() + to.offset, input.data() + from.offset, from.size);
    GlooExchange exchange = NextExchange(Kind::kAllToAll, options);
    LH_RETURN_IF_ERROR(Annotate(
        "all-to-all", exchange.Swap(input.data(), send_parts, output.data(), receive_parts)));
    traffic_.AddAllToAll(send_parts, receive_parts, rank());
    return absl::OkStatus();
  }

  absl::Status Barrier(const CallOptions& options) override {
    LH_RETURN_IF_ERROR(CheckTimeout("barrier", options));
    const std::vector<std::byte> token(1);
    std::vector<std::byte> tokens(size());
    const std::vector<Part> sends(size(), Part{0, 1});
    GlooExchange exchange = NextExchange(Kind::kBarrier, options);
    LH_RETURN_IF_ERROR(Annotate(
        "barrier", exchange.Swap(token.data(), sends, tokens.data(), EvenParts(size(), size()))));
    traffic_.Add(0, 0);
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Split(absl::Span<const int> members,
                                                      const CallOptions& options) override {
    LH_ASSIGN_OR_RETURN(const int own, CheckSplit(*this, members, options));
    SubgroupRendezvous rendezvous(*this, {members.begin(), members.end()});
    return MakeGlooCommunicator({.rank = own,
                                 .size = static_cast<int>(members.size()),
                                 .hostname = hostname_,
                                 .rendezvous = &rendezvous,
                                 .timeout = options.timeout,
                                 .team = team_});
  }

  void Abort(absl::string_view reason) override { mesh_->Abort(reason); }
  Traffic traffic() const override { return traffic_.Read(); }

 private:
  uint64_t NextNumber(Kind kind) {
    return (uint64_t{++exchanges_} << 3) | static_cast<uint64_t>(kind);
  }

  GlooExchange NextExchange(Kind kind, const CallOptions& options) {
    // Keeps the sum in range.
    const absl::Duration timeout = std::min(options.timeout, absl::Hours(24 * 365));
    return GlooExchange(*mesh_, NextNumber(kind),
                        std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout),
                        scratch_, team_);
  }

  absl::Status Annotate(absl::string_view operation, const absl::Status& status) const {
    if (status.ok()) return status;
    return absl::Status(status.code(),
                        absl::StrCat(operation, " (operation ", traffic_.Read().operations + 1,
                                     "): ", status.message()));
  }

  template <typename T>
  absl::Status AllReduce(absl::string_view operation, Kind kind, absl::Span<T> data,
                         const CallOptions& options) {
    LH_RETURN_IF_ERROR(CheckTimeout(operation, options));
    const int64_t count = data.size();
    const std::vector<Part> parts = EvenParts(count, size());
    const Part own = parts[rank()];
    const uint64_t gathering = NextNumber(kind);
    GlooExchange exchange = NextExchange(kind, options);
    LH_RETURN_IF_ERROR(Annotate(operation, exchange.AllReduce(data.data(), parts, gathering)));
    traffic_.AddAllReduce(count * sizeof(T), own.size * sizeof(T), size());
    return absl::OkStatus();
  }

  const std::unique_ptr<GlooMesh> mesh_;
  const std::string hostname_;
  // May be null.
  ThreadTeam* const team_;
  // Equal on all ranks. It may wrap around, since only the last few operations are in progress.
  uint32_t exchanges_ = 0;
  std::vector<std::byte> scratch_;
  TrafficMeter traffic_;
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
  LH_RETURN_IF_ERROR(communicator->Barrier({.timeout = options.timeout}));
  return communicator;
}

}  // namespace longhaul
