#include "worker/agent/node_ranks.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/counted.h"
#include "common/base/host_port.h"
#include "common/base/random_hex.h"
#include "common/base/status_macros.h"
#include "common/io/digest.h"
#include "common/logging/standard_error.h"
#include "common/rpc/channel_count.h"
#include "common/rpc/link_probe.h"
#include "common/rpc/tls_files.h"
#include "google/protobuf/util/json_util.h"
#include "worker/agent/log_ring.h"
#include "worker/cores/processor_list.h"
#include "worker/rank/rendezvous_token.h"
#include "worker/rendezvous/rendezvous_server.h"

namespace longhaul {
namespace {

constexpr absl::Duration kKillPatience = absl::Seconds(10);
constexpr char kNcclInterfaces[] = "NCCL_SOCKET_IFNAME";

// Whether the Logger of a rank wrote the line. Libraries write other lines to standard error.
bool IsLogLine(absl::string_view line) {
  if (absl::StartsWith(line, R"({"time":")")) return true;
  constexpr absl::string_view kTime = "00:00:00.000 ";
  if (line.size() < kTime.size()) return false;
  return std::equal(kTime.begin(), kTime.end(), line.begin(), [](char expected, char c) {
    return expected == '0' ? absl::ascii_isdigit(c) : expected == c;
  });
}

// Within one machine the token is enough, so the rendezvous needs no TLS there.
absl::StatusOr<std::unique_ptr<RendezvousServer>> ServeRendezvous(const AgentOptions& options,
                                                                  const std::string& token) {
  if (options.nodes == 1 && options.ranks == 1) return nullptr;
  if (options.nodes == 1) return RendezvousServer::Start({.token = token});
  return RendezvousServer::Start(
      {.address = HostPortText(options.in_pool_address, 0),
       .tls = options.tls,
       .peer_name = options.in_pool_name,
       .allow_plaintext_beyond_localhost = options.allow_plaintext_beyond_localhost,
       .token = token});
}

// The number of a start of a group's ranks. All nodes compute the same one. A group begins a job
// once, so a number is never used again.
uint64_t GenerationOf(const NodeRanks::Work& work) {
  return DigestOf(absl::StrCat(work.incarnation, "/", work.assignment.job_id())).low;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NodeRanks>> NodeRanks::Create(const AgentOptions& options,
                                                             Handler handler) {
  std::string token = RandomHex();
  LH_ASSIGN_OR_RETURN(std::unique_ptr<RendezvousServer> rendezvous,
                      ServeRendezvous(options, token));
  return absl::WrapUnique(
      new NodeRanks(options, std::move(handler), std::move(token), std::move(rendezvous)));
}

NodeRanks::NodeRanks(const AgentOptions& options, Handler handler, std::string token,
                     std::unique_ptr<RendezvousServer> rendezvous)
    : options_(options),
      handler_(std::move(handler)),
      token_(std::move(token)),
      rendezvous_(std::move(rendezvous)),
      bulk_channels_(options.bulk_channels) {}

NodeRanks::~NodeRanks() { End(); }

void NodeRanks::DescribeMeeting(v1::JoinRequest& request) const {
  if (options_.nodes == 1) return;
  request.set_address(options_.in_pool_address);
  request.set_rendezvous_port(rendezvous_->port());
  request.set_rendezvous_token(token_);
}

absl::Status NodeRanks::Start(const Work& work) {
  End();
  // The ranks read them, too, and would end. That would tell nobody else why.
  if (!options_.tls_files.empty()) {
    if (const absl::Status files = ReadTlsFiles(options_.tls_files).status(); !files.ok()) {
      return absl::Status(files.code(), absl::StrCat("the ranks cannot start: ", files.message()));
    }
  }
  ChooseBulkChannels(work.place.ranks());
  LH_ASSIGN_OR_RETURN(const RankProcess::Options meeting, PrepareMeeting(work));
  for (int rank = 0; rank < options_.ranks; ++rank) {
    RankProcess::Handler handler{
        .on_report = [this, group = group_,
                      rank](const RankReport& report) { handler_.on_report(group, rank, report); },
        .on_exit = [this, group = group_, rank](int code) { handler_.on_exit(group, rank, code); },
        .on_log = KeepLine(work.place.first_rank() + rank)};
    LH_ASSIGN_OR_RETURN(std::unique_ptr<RankProcess> process,
                        RankProcess::Start(OptionsOf(rank, work, meeting), std::move(handler)));
    ranks_.push_back(std::move(process));
  }
  return absl::OkStatus();
}

void NodeRanks::End() {
  ++group_;
  Signal(SIGKILL);
  const absl::Time deadline = SteadyTime() + kKillPatience;
  for (auto& rank : ranks_) {
    if (rank->Kill(deadline - SteadyTime())) continue;
    options_.log.Error(absl::StrCat("rank process ", rank->pid(), " was killed ",
                                    absl::FormatDuration(kKillPatience),
                                    " ago and has not ended: the system waits for its disk or "
                                    "device; the worker continues without it"));
    // Its thread still waits for its end.
    (void)rank.release();
  }
  ranks_.clear();
}

void NodeRanks::Signal(int signal) {
  for (const auto& rank : ranks_) rank->Signal(signal);
}

std::function<void(absl::string_view)> NodeRanks::KeepLine(int rank_of_pool) const {
  if (options_.log_ring == nullptr) return nullptr;
  return [ring = options_.log_ring,
          log = options_.log.With({.rank = rank_of_pool})](absl::string_view line) {
    if (!IsLogLine(line)) return log.Warning(absl::StrCat("the rank's libraries say: ", line));
    ring->Add(line);
    WriteToStandardError(absl::StrCat(line, "\n"));
  };
}

// Done once. The coordinator has just assigned a job, so it answers.
void NodeRanks::ChooseBulkChannels(int ranks_of_pool) {
  if (bulk_channels_ > 0) return;
  BulkLink link{.megabits_per_second = options_.link_mbps / ranks_of_pool};
  link.send_buffer_bytes = SendBufferBytesMax().value_or(link.send_buffer_bytes);
  const absl::StatusOr<absl::Duration> round_trip = handler_.round_trip();
  if (!round_trip.ok()) {
    bulk_channels_ = kDistantChannelsMin;
    options_.log.Warning(absl::StrCat(
        bulk_channels_, " bulk channels for each rank: the round trip ", "is not known: ",
        round_trip.status().ToString(absl::StatusToStringMode::kWithNoExtraData)));
    return;
  }
  link.round_trip = *round_trip;
  bulk_channels_ = BulkChannelCount(link);
  if (bulk_channels_ > 1) push_bytes_per_second_ = PacedBytesPerSecond(link);
  options_.log.Info(
      absl::StrFormat("%s for each rank: %g Mbit/s a rank, a round trip of %s, %d "
                      "KiB of send buffer",
                      Counted(bulk_channels_, "bulk channel"), link.megabits_per_second,
                      absl::FormatDuration(absl::Trunc(link.round_trip, absl::Microseconds(10))),
                      link.send_buffer_bytes >> 10));
}

absl::StatusOr<RankProcess::Options> NodeRanks::PrepareMeeting(const Work& work) {
  if (rendezvous_ == nullptr) return RankProcess::Options();
  const bool alone = options_.nodes == 1;
  const uint64_t generation = alone ? group_ : GenerationOf(work);
  if (alone || work.place.node() == 0)
    LH_RETURN_IF_ERROR(rendezvous_->StartGeneration(generation, work.place.ranks()));
  RankProcess::Options options;
  options.arguments = {"--rendezvous", alone ? rendezvous_->address() : work.place.rendezvous(),
                       "--generation", absl::StrCat(generation)};
  if (!alone) {
    options.arguments.insert(options.arguments.end(),
                             {"--in-pool-address", options_.in_pool_address});
  }
  if (!options_.in_pool_name.empty()) {
    options.arguments.insert(options.arguments.end(), {"--in-pool-name", options_.in_pool_name});
  }
  options.environment = {
      absl::StrCat(kRendezvousTokenVariable, "=", alone ? token_ : work.place.rendezvous_token())};
  // NCCL knows only interfaces. '=' means the whole name.
  if (!alone && std::getenv(kNcclInterfaces) == nullptr) {
    options.environment.push_back(absl::StrCat(kNcclInterfaces, "==", options_.in_pool_interface));
  }
  return options;
}

RankProcess::Options NodeRanks::OptionsOf(int rank, const Work& work,
                                          RankProcess::Options meeting) const {
  const RankCores cores =
      rank < static_cast<int>(options_.cores.size()) ? options_.cores[rank] : RankCores();
  RankProcess::Options options = std::move(meeting);
  options.program = options_.rank_program;
  options.log = options_.log;
  options.arguments.insert(options.arguments.end(),
                           {"--coordinator",
                            options_.coordinator,
                            "--pool",
                            options_.pool,
                            "--incarnation",
                            work.incarnation,
                            "--agent",
                            absl::StrCat(getpid()),
                            "--rank",
                            absl::StrCat(work.place.first_rank() + rank),
                            "--local-rank",
                            absl::StrCat(rank),
                            "--ranks",
                            absl::StrCat(work.place.ranks()),
                            "--ranks-of-node",
                            absl::StrJoin(work.place.ranks_of_node(), ","),
                            "--threads",
                            absl::StrCat(cores.threads),
                            "--bulk-channels",
                            absl::StrCat(bulk_channels_),
                            "--push-bytes-per-second",
                            absl::StrCat(push_bytes_per_second_),
                            "--data-dir",
                            options_.data_dir,
                            "--work-dir",
                            options_.work_dir,
                            "--drain-seconds",
                            absl::StrCat(absl::ToDoubleSeconds(options_.drain)),
                            "--progress-timeout",
                            absl::StrCat(absl::ToDoubleSeconds(options_.progress.at_least)),
                            "--progress-factor",
                            absl::StrCat(options_.progress.factor),
                            "--log-format",
                            options_.log_format,
                            "--log-level",
                            options_.log_level});
  if (!cores.processors.empty()) {
    options.arguments.insert(options.arguments.end(), {"--cpus", ProcessorList(cores.processors)});
  }
  if (!options_.trace.empty()) {
    options.arguments.insert(
        options.arguments.end(),
        {"--trace", absl::StrCat(options_.trace, ".", work.place.first_rank() + rank)});
  }
  if (!options_.update_rates.empty()) {
    options.arguments.insert(options.arguments.end(), {"--update-rates", options_.update_rates});
  }
  if (!options_.state_dir.empty()) {
    options.arguments.insert(options.arguments.end(),
                             {"--state-dir", options_.state_dir, "--state-every",
                              absl::StrCat(absl::ToDoubleSeconds(options_.state_every))});
  }
  if (!options_.tls_files.empty()) {
    options.arguments.insert(options.arguments.end(),
                             {"--tls-ca", options_.tls_files.ca, "--tls-certificate",
                              options_.tls_files.certificate, "--tls-key", options_.tls_files.key});
  }
  // OpenMP threads that spin make several ranks on few cores ten times slower.
  options.environment.push_back("OMP_WAIT_POLICY=passive");
  options.environment.push_back(absl::StrCat("OMP_NUM_THREADS=", cores.threads));
  LH_CHECK(google::protobuf::util::MessageToJsonString(work.assignment, &options.input).ok(),
           "an assignment has a JSON form");
  return options;
}

}  // namespace longhaul
