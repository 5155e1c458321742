// ParseSites and CompleteSites of job_forecast.h.
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/counted.h"
#include "common/base/names.h"
#include "common/config/checks.h"
#include "common/config/load.h"
#include "common/config/violation_list.h"
#include "common/partition/topology.h"
#include "common/plan/job/job_forecast.h"
#include "common/plan/job/machines.h"
#include "common/plan/job/measured_rates.h"

namespace longhaul::plan {
namespace {

constexpr int kPoolsMax = 4096, kNodesMax = 256, kCoresMax = 4096;
constexpr double kNumberMax = 1e15, kRoundTripMax = 60000;
// Of what is divided by: with less a job takes longer than a number can say.
constexpr double kSiteRateMin = 1e-9, kMbpsMin = 1e-3;
constexpr double kGibMax = 1e9;
constexpr double kMbpsDefault = 1000;
// What training sustains of a device's peak, if nothing was measured.
constexpr double kSustained = 0.4;
constexpr double kTeraflopsOfCore = 0.04;
constexpr int kCoresDefault = 8;

// What a field means that is left out. Zero is no such number: a user who writes it means zero.
absl::string_view SiteDefaultOf(absl::string_view path) {
  static constexpr std::pair<absl::string_view, absl::string_view> kDefaults[] = {
      {"copies", "1"},
      {"nodes", "1"},
      {"ranks", "the GPUs of the machine, or 1"},
      {"cores", "8"},
      {"tokens_per_second", "what follows from teraflops"},
      {"teraflops", "that of the machine"},
      {"device_gib", "that of the machine"},
      {"host_gib", "not known"},
      {"pair_gb_per_second", "that of the machine"},
      {"node_gb_per_second", "that of the machine"},
      {"pool_gb_per_second", "that of the machine"},
      {"up_mbps", "1000"},
      {"down_mbps", "as up_mbps"},
      {"memory_gib", "not known"},
      {"disk_gib", "not known"}};
  const absl::string_view name = path.substr(path.rfind('.') + 1);
  for (const auto& [field, meaning] : kDefaults) {
    if (name == field) return meaning;
  }
  return "";
}

class Completion {
 public:
  Completion(const ResolvedJob& job, ViolationList& violations)
      : job_(job), violations_(violations) {}

  v1::Sites Complete(v1::Sites sites) {
    if (sites.pools().empty())
      violations_.Invalid("pools", "found no pool, expected 1 to 4096", "describe the sites");
    int64_t pools = 0;
    std::set<std::string> names;
    for (int i = 0; i < sites.pools_size(); ++i) {
      const std::string field = absl::StrCat("pools[", i, "]");
      CompletePool(field, i, *sites.mutable_pools(i));
      pools += std::max(1, sites.pools(i).copies());
      if (!names.insert(sites.pools(i).name()).second) {
        violations_.Invalid(field + ".name",
                            absl::StrCat("found '", sites.pools(i).name(), "' a second time"),
                            "for several pools that are alike use copies");
      }
    }
    if (pools > kPoolsMax)
      violations_.Invalid("pools",
                          absl::StrFormat("found %d pools, expected at most %d", pools, kPoolsMax));
    const int least = job_.spec.pools().min();
    if (!sites.pools().empty() && pools < least) {
      violations_.Invalid("pools", absl::StrCat("found ", Counted(pools, "pool"),
                                                ", but pools.min of the job is ", least));
    }
    if (sites.has_coordinator()) CompleteCoordinator(*sites.mutable_coordinator());
    return sites;
  }

 private:
  // Those of proto3 are 0 if they are not given.
  void Given(const std::string& field, double value, const Interval& interval) {
    if (value != 0) RequireNumber(violations_, field, value, interval);
  }
  void GivenInteger(const std::string& field, int value, int most) {
    if (value != 0) RequireInteger(violations_, field, value, 1, most);
  }

  void CompleteLink(const std::string& field, v1::SiteLink& link) {
    Given(field + ".up_mbps", link.up_mbps(), {kMbpsMin, kNumberMax});
    Given(field + ".down_mbps", link.down_mbps(), {kMbpsMin, kNumberMax});
    RequireNumber(violations_, field + ".rtt_ms", link.rtt_ms(), {0, kRoundTripMax});
    // Those of a forecast are complete, and some of them were assumed.
    link.set_assumed(link.assumed() || link.up_mbps() == 0);
    if (link.up_mbps() == 0) link.set_up_mbps(kMbpsDefault);
    if (link.down_mbps() == 0) link.set_down_mbps(link.up_mbps());
  }
  void CompleteCoordinator(v1::CoordinatorSite& site) {
    if (site.has_link()) CompleteLink("coordinator.link", *site.mutable_link());
    Given("coordinator.memory_gib", site.memory_gib(), {0, kGibMax});
    Given("coordinator.disk_gib", site.disk_gib(), {0, kGibMax});
  }

  void CompletePool(const std::string& field, int index, v1::PoolSite& site) {
    if (site.name().empty()) site.set_name(absl::StrCat("pool-", index + 1));
    RequireName(violations_, field + ".name", site.name());
    GivenInteger(field + ".copies", site.copies(), kPoolsMax);
    GivenInteger(field + ".nodes", site.nodes(), kNodesMax);
    GivenInteger(field + ".ranks", site.ranks(), kRanksMax);
    GivenInteger(field + ".cores", site.cores(), kCoresMax);
    const std::pair<const char*, double> rates[] = {
        {"tokens_per_second", site.tokens_per_second()},
        {"teraflops", site.teraflops()},
        {"pair_gb_per_second", site.pair_gb_per_second()},
        {"node_gb_per_second", site.node_gb_per_second()},
        {"pool_gb_per_second", site.pool_gb_per_second()}};
    for (const auto& [name, value] : rates)
      Given(absl::StrCat(field, ".", name), value, {kSiteRateMin, kNumberMax});
    Given(field + ".device_gib", site.device_gib(), {0, kGibMax});
    Given(field + ".host_gib", site.host_gib(), {0, kGibMax});
    Given(field + ".price_per_hour", site.price_per_hour(), {0, kNumberMax});
    CompleteLink(field + ".link", *site.mutable_link());
    if (!CheckFigures(field + ".figures", site)) return;
    CompleteMachine(field, site);
    if (site.copies() == 0) site.set_copies(1);
    if (site.nodes() == 0) site.set_nodes(1);
    if (site.ranks() == 0) site.set_ranks(1);
    const auto topology =
        Topology::Make(std::vector<int>(std::max(1, site.nodes()), std::max(1, site.ranks())));
    const auto map = PartitionOf(job_.spec.partition());
    if (!topology.ok() || !map.ok()) return;
    if (topology->ranks() > kRanksMax) {
      violations_.Invalid(field + ".nodes",
                          absl::StrFormat("found %d ranks in the pool, expected at most %d",
                                          topology->ranks(), kRanksMax));
    } else if (const absl::Status fits = CheckTopology(*map, *topology); !fits.ok()) {
      violations_.Invalid(field + ".ranks", std::string(fits.message()),
                          "change the site, or partition in the job");
    }
  }

  bool CheckFigures(const std::string& field, const v1::PoolSite& site) {
    if (!site.has_figures()) return true;
    const std::vector<SpecViolation> faults = FaultsOf(site.figures(), field);
    for (const SpecViolation& fault : faults)
      violations_.Invalid(fault.field, fault.description, fault.hint);
    return faults.empty();
  }

  void CompleteMachine(const std::string& field, v1::PoolSite& site) {
    const v1::TrainSpec& train = job_.spec.train();
    const bool cuda = train.device() == v1::CUDA;
    if (site.machine().empty() && !cuda) site.set_machine("cpu");
    const Machine* machine = site.machine().empty() ? nullptr : FindMachine(site.machine());
    if (!site.machine().empty() && machine == nullptr) {
      violations_.Invalid(
          field + ".machine",
          absl::StrCat("found '", site.machine(), "', expected one of ", MachineNames()),
          "or leave it out and give teraflops, device_gib and the rates");
      return;
    }
    const bool is_cpu = machine != nullptr && machine->peak_bf16 == 0;
    if (machine != nullptr && is_cpu == cuda) {
      violations_.Invalid(field + ".machine",
                          absl::StrCat("found ", site.machine(),
                                       ", but train.device of the job is ", cuda ? "CUDA" : "CPU"));
      return;
    }
    const auto fill = [](double given, double of_machine) {
      return given > 0 ? given : of_machine;
    };
    if (is_cpu) {
      if (site.cores() == 0) site.set_cores(kCoresDefault);
      const int ranks = std::max(1, site.ranks());
      // Those of a complete site may follow from its figures.
      if (site.teraflops() == 0) {
        const std::optional<double> measured = MeasuredTeraflops(
            site.figures(), static_cast<double>(job_.spec.model().transformer().dim()),
            train.precision() == v1::BFLOAT16);
        site.set_teraflops_of_figures(measured.has_value());
        site.set_teraflops(measured.value_or(kTeraflopsOfCore * site.cores() / ranks));
      }
    } else if (machine != nullptr) {
      const double peak =
          train.precision() == v1::BFLOAT16 ? machine->peak_bf16 : machine->peak_float32;
      site.set_teraflops(fill(site.teraflops(), kSustained * peak));
      site.set_device_gib(fill(site.device_gib(), machine->memory_gib));
      if (site.ranks() == 0) site.set_ranks(machine->ranks);
    } else if (site.teraflops() == 0 && site.tokens_per_second() == 0) {
      violations_.Invalid(
          field, "found no machine, teraflops or tokens_per_second",
          absl::StrCat("name a machine (", MachineNames(), ") or give one of the two"));
    }
    if (site.figures().memory_bytes() > 0) {
      site.set_host_gib(
          fill(site.host_gib(), static_cast<double>(site.figures().memory_bytes()) / kGiB));
    }
    // Without a machine the ranks of a node share PCIe, and nodes 10 Gbit/s.
    site.set_pair_gb_per_second(fill(site.pair_gb_per_second(), machine ? machine->pair : 12));
    if (!cuda && site.figures().exchange_gb_per_second() > 0) {
      const double measured = site.figures().exchange_gb_per_second();
      site.set_node_gb_per_second(fill(site.node_gb_per_second(), measured));
    }
    site.set_node_gb_per_second(fill(site.node_gb_per_second(), machine ? machine->node : 12));
    site.set_pool_gb_per_second(fill(site.pool_gb_per_second(), machine ? machine->pool : 1.25));
  }

  const ResolvedJob& job_;
  ViolationList& violations_;
};

}  // namespace

absl::StatusOr<v1::Sites> ParseSites(absl::string_view text,
                                     std::vector<SpecViolation>* violations) {
  ViolationList found;
  v1::Sites sites;
  ParseYamlMessage(text, {}, SiteDefaultOf, sites, found);
  if (violations != nullptr) *violations = found.all();
  if (!found.empty()) return ViolationsToStatus(found.all());
  return sites;
}

absl::StatusOr<v1::Sites> CompleteSites(const ResolvedJob& job, const v1::Sites& sites,
                                        std::vector<SpecViolation>* violations) {
  ViolationList found;
  if (job.spec.model().has_graph_sage()) {
    found.Invalid("model", "no forecast of a job on a graph is built yet",
                  "submit the job without one; `longhaul get` shows its pace");
  } else if (!job.spec.model().has_transformer()) {
    found.Invalid("model", "the synthetic model computes nothing, so there is nothing to forecast",
                  "plan a transformer");
  }
  v1::Sites complete = found.empty() ? Completion(job, found).Complete(sites) : v1::Sites();
  if (violations != nullptr) *violations = found.all();
  if (!found.empty()) return ViolationsToStatus(found.all());
  return complete;
}

}  // namespace longhaul::plan
