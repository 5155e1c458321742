#include "worker/cores/rank_cores.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "common/base/counted.h"
#include "worker/cores/processor_list.h"

namespace longhaul {
namespace {

using CoreSpan = absl::Span<const Core>;

// The cores of each NUMA node.
std::vector<CoreSpan> NodesOf(const HostCores& host) {
  std::vector<CoreSpan> nodes;
  const CoreSpan cores = host.cores;
  for (size_t first = 0; first < cores.size();) {
    size_t end = first;
    while (end < cores.size() && cores[end].numa_node == cores[first].numa_node) ++end;
    nodes.push_back(cores.subspan(first, end - first));
    first = end;
  }
  return nodes;
}

// The piece `index` of `count` even ones; at least one core.
CoreSpan Piece(CoreSpan cores, int index, int count) {
  const size_t first = cores.size() * index / count, end = cores.size() * (index + 1) / count;
  return cores.subspan(first, std::max<size_t>(1, end - first));
}

// Of one rank.
struct CoreShare {
  CoreSpan nodes;  // The cores of its NUMA nodes.
  CoreSpan own;    // Of them, its own.
};

// A rank for each piece of a node. Each goes where it gets most cores.
std::vector<CoreShare> SpreadRanks(absl::Span<const CoreSpan> nodes, int ranks) {
  std::vector<int> on_node(nodes.size());
  for (int rank = 0; rank < ranks; ++rank) {
    size_t best = 0;
    for (size_t i = 1; i < nodes.size(); ++i) {
      if (nodes[i].size() * (on_node[best] + 1) > nodes[best].size() * (on_node[i] + 1)) best = i;
    }
    ++on_node[best];
  }
  std::vector<CoreShare> shares;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (int piece = 0; piece < on_node[i]; ++piece)
      shares.push_back({nodes[i], Piece(nodes[i], piece, on_node[i])});
  }
  return shares;
}

// Several nodes for each rank: neighbours.
std::vector<CoreShare> SpreadNodes(absl::Span<const CoreSpan> nodes, int ranks) {
  std::vector<CoreShare> shares;
  for (int rank = 0; rank < ranks; ++rank) {
    const size_t first = nodes.size() * rank / ranks, end = nodes.size() * (rank + 1) / ranks;
    size_t cores = 0;
    for (size_t i = first; i < end; ++i) cores += nodes[i].size();
    const CoreSpan all(nodes[first].data(), cores);  // They lie one after another.
    shares.push_back({all, all});
  }
  return shares;
}

int ThreadsOf(const HostCores& host, size_t own, int ranks, bool communicates) {
  // A quota, and what others leave, is shared by all.
  const int share = host.count() < static_cast<int>(host.cores.size())
                        ? std::min<int>(own, host.count() / ranks)
                        : static_cast<int>(own);
  return std::max(1, communicates && share >= kSparedFrom ? share - 1 : share);
}

}  // namespace

std::vector<RankCores> CoresOfRanks(const HostCores& host, int ranks, CoreBinding binding,
                                    bool communicates) {
  const std::vector<CoreSpan> nodes = NodesOf(host);
  const int node_count = static_cast<int>(nodes.size());
  const std::vector<CoreShare> shares =
      ranks < node_count ? SpreadNodes(nodes, ranks) : SpreadRanks(nodes, ranks);
  std::vector<RankCores> result;
  for (const CoreShare& share : shares) {
    RankCores& rank = result.emplace_back();
    rank.threads = ThreadsOf(host, share.own.size(), ranks, communicates);
    // One rank has all there is.
    const bool bound = ranks > 1 && (binding == CoreBinding::kCores ||
                                     (binding == CoreBinding::kNode && node_count > 1));
    if (!bound) continue;
    std::set<int> numa_nodes;
    for (const Core& core : binding == CoreBinding::kCores ? share.own : share.nodes) {
      rank.processors.insert(rank.processors.end(), core.processors.begin(), core.processors.end());
      numa_nodes.insert(core.numa_node);
    }
    std::sort(rank.processors.begin(), rank.processors.end());
    rank.numa_nodes.assign(numa_nodes.begin(), numa_nodes.end());
  }
  return result;
}

std::string Describe(const HostCores& host, const std::vector<RankCores>& ranks) {
  std::string text = absl::StrCat(Counted(host.cores.size(), "core"), " on ",
                                  Counted(NodesOf(host).size(), "NUMA node"));
  if (host.quota > 0) absl::StrAppendFormat(&text, ", the time of %g processors", host.quota);
  if (host.busy > 0) absl::StrAppend(&text, ", ", host.busy, " busy with other work");
  for (size_t i = 0; i < ranks.size(); ++i) {
    absl::StrAppend(&text, "; rank ", i, ": ", Counted(ranks[i].threads, "thread"), " on ");
    if (ranks[i].processors.empty()) {
      absl::StrAppend(&text, "any core");
    } else {
      absl::StrAppend(&text, "processors ", ProcessorList(ranks[i].processors), " (NUMA node ",
                      absl::StrJoin(ranks[i].numa_nodes, ","), ")");
    }
  }
  return text;
}

}  // namespace longhaul
