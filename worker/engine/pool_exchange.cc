#include "worker/engine/pool_exchange.h"

#include <utility>

#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "c10/core/Stream.h"
#include "common/base/status_macros.h"
#include "common/base/status_marks.h"
#include "worker/engine/tensor_span.h"
#include "worker/model/device_stream.h"

namespace longhaul {
namespace {

// Copies the result back from the staging copy, if there is one.
void Unstage(const at::Tensor& staged, const at::Tensor& tensor) {
  if (staged.data_ptr() != tensor.data_ptr()) tensor.copy_(staged);
}

// Adds the pool's ranks of a group to its error, which only has the group's own rank numbers.
absl::Status NameRanks(const absl::Status& status, const Hop& hop, const Topology& topology) {
  if (status.ok()) return status;
  const auto name = [&](std::string* out, int rank) {
    absl::StrAppend(out, rank, " on node ", topology.node(rank));
  };
  return WithMessage(status, absl::StrCat(status.message(), " (in a group of the pool's ranks ",
                                          absl::StrJoin(hop.ranks, ", ", name), ")"));
}

}  // namespace

ReceivedBytes ReceivedBytes::operator-(const ReceivedBytes& earlier) const {
  ReceivedBytes since = *this;
  for (int use = 0; use < kUses; ++use) {
    for (size_t level = 0; level < since.payload[use].size(); ++level) {
      since.payload[use][level] -= earlier.payload[use][level];
      since.scales[use][level] -= earlier.scales[use][level];
    }
  }
  return since;
}

absl::StatusOr<std::unique_ptr<PoolExchange>> PoolExchange::Create(const PoolLink& link,
                                                                   const PartitionMap& map,
                                                                   at::Device device) {
  const int ranks = link.communicator == nullptr ? 1 : link.communicator->size();
  std::vector<int> ranks_of_node = link.ranks_of_node;
  if (ranks_of_node.empty()) ranks_of_node = {ranks};
  LH_ASSIGN_OR_RETURN(Topology topology, Topology::Make(ranks_of_node));
  if (topology.ranks() != ranks) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the nodes have %d ranks, the pool %d", topology.ranks(), ranks));
  }
  LH_RETURN_IF_ERROR(CheckTopology(map, topology));
  std::unique_ptr<PoolExchange> exchange(new PoolExchange(link, std::move(topology), device));
  for (HopGroup& group : HopGroups(map, exchange->topology_, exchange->rank()))
    LH_RETURN_IF_ERROR(exchange->MakeHop(std::move(group)));
  return exchange;
}

PoolExchange::PoolExchange(const PoolLink& link, Topology topology, at::Device device)
    : link_(link),
      topology_(std::move(topology)),
      stage_(link.on_device ? device : at::Device(at::kCPU)) {}

absl::Status PoolExchange::MakeHop(HopGroup group) {
  Communicator* communicator = link_.communicator;
  const bool is_pool = static_cast<int>(group.ranks.size()) == communicator->size() &&
                       absl::c_is_sorted(group.ranks);
  if (!is_pool) {
    LH_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> split,
                        communicator->Split(group.ranks, {.timeout = link_.timeout}));
    communicator = split.get();
    groups_.push_back(std::move(split));
  }
  hops_.push_back({std::move(group), communicator});
  return absl::OkStatus();
}

const Hop* PoolExchange::FindHop(HopLevels levels) const {
  for (const Hop& hop : hops_) {
    if (hop.narrow == levels.narrow && hop.wide == levels.wide) return &hop;
  }
  return nullptr;
}

std::vector<const Hop*> PoolExchange::Path(Level wide, Level narrow) const {
  std::vector<const Hop*> path;
  for (const HopLevels hop :
       HopPath(wide, narrow, [this](HopLevels levels) { return FindHop(levels) != nullptr; })) {
    path.push_back(FindHop(hop));
  }
  return path;
}

CallOptions PoolExchange::Options() const {
  return {.timeout = link_.timeout, .stream = CurrentStream(stage_)};
}

void PoolExchange::Count(const Hop& hop, absl::Span<const Part> parts,
                         absl::Span<const int64_t> scales, Use use) {
  absl::MutexLock lock(&mutex_);
  for (size_t i = 0; i < hop.ranks.size(); ++i) {
    if (hop.ranks[i] == rank()) continue;
    const auto level = static_cast<int>(topology_.Nearest(rank(), hop.ranks[i]));
    const int64_t scale = scales.empty() ? 0 : scales[i];
    received_.payload[static_cast<int>(use)][level] += parts[i].size - scale;
    received_.scales[static_cast<int>(use)][level] += scale;
  }
}

ReceivedBytes PoolExchange::received() const {
  absl::MutexLock lock(&mutex_);
  return received_;
}

absl::Status PoolExchange::AllGather(const Hop& hop, const at::Tensor& bytes,
                                     absl::Span<const Part> parts, absl::Span<const int64_t> scales,
                                     Use use) {
  const at::Tensor staged = Stage(bytes);
  const absl::Span<std::byte> all = SpanOf<std::byte>(staged);
  const Part own = parts[hop.communicator->rank()];
  LH_RETURN_IF_ERROR(NameRanks(
      hop.communicator->AllGather(all.subspan(own.offset, own.size), parts, all, Options()), hop,
      topology_));
  Unstage(staged, bytes);
  Count(hop, parts, scales, use);
  return absl::OkStatus();
}

absl::Status PoolExchange::ReduceScatter(const Hop& hop, const at::Tensor& flat,
                                         absl::Span<const int64_t> counts) {
  const at::Tensor staged = Stage(flat);
  const absl::Span<float> all = SpanOf<float>(staged);
  const int own = hop.communicator->rank();
  int64_t first = 0;
  for (int r = 0; r < own; ++r) first += counts[r];
  LH_RETURN_IF_ERROR(NameRanks(
      hop.communicator->ReduceScatterSum(all, counts, all.subspan(first, counts[own]), Options()),
      hop, topology_));
  Unstage(staged, flat);
  // Each other rank has sent this rank's part.
  const std::vector<Part> received(counts.size(),
                                   {0, counts[own] * static_cast<int64_t>(sizeof(float))});
  Count(hop, received, {}, Use::kGradient);
  return absl::OkStatus();
}

absl::Status PoolExchange::AllToAll(const Hop& hop, const at::Tensor& from,
                                    absl::Span<const Part> send_parts, const at::Tensor& to,
                                    absl::Span<const Part> receive_parts,
                                    absl::Span<const int64_t> scales) {
  const at::Tensor staged_from = Stage(from), staged_to = Stage(to);
  LH_RETURN_IF_ERROR(
      NameRanks(hop.communicator->AllToAll(SpanOf<std::byte>(staged_from), send_parts,
                                           SpanOf<std::byte>(staged_to), receive_parts, Options()),
                hop, topology_));
  Unstage(staged_to, to);
  Count(hop, receive_parts, scales, Use::kGradient);
  return absl::OkStatus();
}

absl::Status PoolExchange::Sum(absl::Span<double> values) {
  return Sum(at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kDouble));
}

absl::Status PoolExchange::Sum(const at::Tensor& values) {
  if (ranks() == 1) return absl::OkStatus();
  const at::Tensor staged = Stage(values);
  LH_RETURN_IF_ERROR(link_.communicator->AllReduceSum(SpanOf<double>(staged), Options()));
  Unstage(staged, values);
  return absl::OkStatus();
}

absl::Status PoolExchange::CompressedMean(CompressedAllReduce& reduce, const at::Tensor& flat) {
  LH_RETURN_IF_ERROR(reduce.Run(*link_.communicator, SpanOf<float>(flat), Options()));
  Hop pool;
  pool.wide = Level::kPool;
  // What each rank sent of this rank's chunk; and what each rank sent of its averaged chunk.
  std::vector<Part> in, out;
  std::vector<int64_t> in_scales, out_scales;
  for (int r = 0; r < ranks(); ++r) {
    pool.ranks.push_back(r);
    in.push_back({0, reduce.CodedBytes(rank())});
    in_scales.push_back(reduce.ScaleBytes(rank()));
    out.push_back({0, reduce.CodedBytes(r)});
    out_scales.push_back(reduce.ScaleBytes(r));
  }
  Count(pool, in, in_scales, Use::kGradient);
  Count(pool, out, out_scales, Use::kGradient);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<int64_t>>> PoolExchange::Gather(
    absl::Span<const int64_t> values) {
  const auto count = static_cast<int64_t>(values.size());
  at::Tensor all = at::empty({ranks(), count}, at::kLong);
  std::copy(values.begin(), values.end(), SpanOf<int64_t>(all).begin() + rank() * count);
  if (ranks() > 1 && count > 0) {
    const at::Tensor staged = Stage(all);
    const int64_t size = count * static_cast<int64_t>(sizeof(int64_t));
    std::vector<Part> parts;
    for (int r = 0; r < ranks(); ++r) parts.push_back({r * size, size});
    const absl::Span<std::byte> bytes = SpanOf<std::byte>(staged);
    LH_RETURN_IF_ERROR(
        link_.communicator->AllGather(bytes.subspan(rank() * size, size), parts, bytes, Options()));
    Unstage(staged, all);
  }
  std::vector<std::vector<int64_t>> result;
  for (int r = 0; r < ranks(); ++r) {
    const absl::Span<const int64_t> row = SpanOf<int64_t>(all).subspan(r * count, count);
    result.emplace_back(row.begin(), row.end());
  }
  return result;
}

}  // namespace longhaul
