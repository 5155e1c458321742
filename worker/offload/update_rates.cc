#include "worker/offload/update_rates.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"
#include "worker/movement/arena.h"

namespace longhaul {
namespace {

constexpr absl::string_view kMagic = "longhaul update rates 1";
constexpr absl::string_view kMagicOfAll = "longhaul update rates ";
constexpr int64_t kFileBytesMax = 4096;
// p, m, v, g.
constexpr int kArrays = 4;
// If copies slow the host by more than this, its memory is said to be the limit.
constexpr double kSlowed = 0.9;

constexpr MoveQueue kUpQueue{Direction::kUp, MoveClass::kState};
constexpr MoveQueue kDownQueue{Direction::kDown, MoveClass::kState};

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A scratch subgroup on the host and one on the device. Copies use other buffers of the host, so
// that they can run beside its update.
class Scratch {
 public:
  static absl::StatusOr<std::shared_ptr<Scratch>> Create(Movement& movement,
                                                         const MeasureOptions& options) {
    const int64_t bytes = options.elements * static_cast<int64_t>(sizeof(float));
    const int64_t size = Arena::SizeOf(bytes);
    LH_ASSIGN_OR_RETURN(Arena host, Arena::Create(movement, MemorySide::kHost, (kArrays + 2) * size,
                                                  "measuring the host's update"));
    LH_ASSIGN_OR_RETURN(Arena device,
                        Arena::Create(movement, MemorySide::kDevice, (kArrays + 2) * size,
                                      "measuring the device's update"));
    auto scratch = std::make_shared<Scratch>();
    for (int i = 0; i < kArrays + 2; ++i) {
      scratch->host_.push_back(host.Take("scratch", bytes));
      scratch->device_.push_back(device.Take("scratch", bytes));
    }
    return scratch;
  }

  AdamWArrays HostArrays() const { return ArraysOf(host_); }
  AdamWArrays DeviceArrays() const { return ArraysOf(device_); }
  MoveToken CopyUp(Movement& movement) {
    return movement.Copy(kUpQueue, {host_[kArrays].get(), 0}, {device_[kArrays].get(), 0},
                         host_[kArrays]->bytes());
  }
  MoveToken CopyDown(Movement& movement) {
    return movement.Copy(kDownQueue, {device_[kArrays + 1].get(), 0}, {host_[kArrays + 1].get(), 0},
                         host_[kArrays]->bytes());
  }

 private:
  using Buffers = std::vector<std::unique_ptr<VersionedBuffer>>;
  static AdamWArrays ArraysOf(const Buffers& buffers) {
    return {.gradients = buffers[3]->as<float>(),
            .parameters = buffers[0]->as<float>(),
            .moment = buffers[1]->as<float>(),
            .variance = buffers[2]->as<float>()};
  }
  Buffers host_, device_;
};

// The shortest time of a run, in seconds: disturbances only add to it. The first run does not
// count.
absl::StatusOr<double> LeastTimeOf(absl::Duration budget,
                                   const std::function<absl::Status()>& run) {
  LH_RETURN_IF_ERROR(run());
  const auto start = std::chrono::steady_clock::now();
  double least = 0;
  do {
    const auto begin = std::chrono::steady_clock::now();
    LH_RETURN_IF_ERROR(run());
    const double seconds = SecondsSince(begin);
    least = least == 0 ? seconds : std::min(least, seconds);
  } while (SecondsSince(start) < absl::ToDoubleSeconds(budget));
  return least;
}

absl::StatusOr<UpdateRates> MeasureWith(Scratch& scratch, Movement& movement,
                                        const DeviceAdamW& device, ThreadTeam* team,
                                        const MeasureOptions& options) {
  const UpdateOptions update{.learning_rate = 1e-3};
  const auto elements = static_cast<double>(options.elements);
  const double bytes = elements * sizeof(float);
  const absl::Duration budget = options.budget / 5;
  const auto host_run = [&] {
    const AdamWConstants constants =
        MakeAdamWConstants(options.adamw, update, /*count=*/1, /*decay=*/true);
    AdamWKernel(constants, options.elements, scratch.HostArrays(), team);
    return absl::OkStatus();
  };
  const auto wait = [&](const MoveToken& token) {
    return movement.Wait(token, "measuring the update's rates");
  };
  LH_ASSIGN_OR_RETURN(const double host, LeastTimeOf(budget, host_run));
  LH_ASSIGN_OR_RETURN(const double up,
                      LeastTimeOf(budget, [&] { return wait(scratch.CopyUp(movement)); }));
  LH_ASSIGN_OR_RETURN(const double down,
                      LeastTimeOf(budget, [&] { return wait(scratch.CopyDown(movement)); }));
  LH_ASSIGN_OR_RETURN(const double on_device, LeastTimeOf(budget, [&] {
                        const DeviceUpdate work{.options = options.adamw,
                                                .update = update,
                                                .count = 1,
                                                .decay = true,
                                                .elements = options.elements,
                                                .arrays = scratch.DeviceArrays()};
                        return wait(movement.Compute(
                            [device, work](void* stream) { return device(work, stream); }, {}, {}));
                      }));
  // The host updates for as long as both links are busy. `beside` is its highest rate.
  double beside = 0;
  LH_RETURN_IF_ERROR(LeastTimeOf(budget, [&]() -> absl::Status {
                       const MoveToken last_up = scratch.CopyUp(movement);
                       const MoveToken last_down = scratch.CopyDown(movement);
                       const auto start = std::chrono::steady_clock::now();
                       int runs = 0;
                       do {
                         LH_RETURN_IF_ERROR(host_run());
                         ++runs;
                       } while (!movement.Done(last_up) && !movement.Done(last_down));
                       beside = std::max(beside, elements * runs / SecondsSince(start));
                       LH_RETURN_IF_ERROR(wait(last_up));
                       return wait(last_down);
                     }).status());
  UpdateRates rates{.host_elements = elements / host,
                    .device_elements = elements / on_device,
                    .up_bytes = bytes / up,
                    .down_bytes = bytes / down};
  rates.host_elements_beside = std::min(rates.host_elements, beside);
  if (rates.host_elements_beside < kSlowed * rates.host_elements) {
    rates.dram_bytes =
        rates.host_elements_beside * UpdateTraffic().dram_host + rates.up_bytes + rates.down_bytes;
  }
  return rates;
}

}  // namespace

absl::StatusOr<UpdateRates> MeasureUpdateRates(Movement& movement, const DeviceAdamW& device,
                                               ThreadTeam* team, const MeasureOptions& options) {
  LH_ASSIGN_OR_RETURN(const std::shared_ptr<Scratch> scratch, Scratch::Create(movement, options));
  absl::StatusOr<UpdateRates> rates = MeasureWith(*scratch, movement, device, team, options);
  if (!rates.ok()) movement.Keep(scratch);
  return rates;
}

absl::StatusOr<UpdateRates> LoadUpdateRates(FileSystem& fs, const std::string& path,
                                            absl::string_view fingerprint) {
  LH_ASSIGN_OR_RETURN(const std::string text, ReadFile(fs, path, kFileBytesMax));
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  const absl::Status none =
      absl::NotFoundError(absl::StrCat(path, " has no rates of this machine: ", fingerprint));
  if (lines.size() < 3 || lines[0] != kMagic || lines[1] != fingerprint) return none;
  UpdateRates rates;
  const std::vector<std::string> numbers = absl::StrSplit(lines[2], ' ');
  double* const fields[] = {&rates.host_elements, &rates.device_elements,      &rates.up_bytes,
                            &rates.down_bytes,    &rates.host_elements_beside, &rates.dram_bytes};
  if (numbers.size() != std::size(fields)) return none;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const bool may_be_zero = i >= 4;
    if (!absl::SimpleAtod(numbers[i], fields[i]) || !(*fields[i] < 1e30) ||
        !(*fields[i] > 0 || (may_be_zero && *fields[i] == 0))) {
      return none;
    }
  }
  return rates;
}

absl::Status SaveUpdateRates(FileSystem& fs, const std::string& path, absl::string_view fingerprint,
                             const UpdateRates& rates) {
  const absl::StatusOr<std::string> held = ReadFile(fs, path, kFileBytesMax);
  const bool replaces = held.ok() && (held->empty() || absl::StartsWith(*held, kMagicOfAll));
  if (!replaces && !absl::IsNotFound(held.status()))
    return absl::FailedPreconditionError(absl::StrCat(path, " holds something else"));
  return WriteFileAtomically(
      fs, path,
      absl::StrFormat("%s\n%s\n%.17g %.17g %.17g %.17g %.17g %.17g\n", kMagic, fingerprint,
                      rates.host_elements, rates.device_elements, rates.up_bytes, rates.down_bytes,
                      rates.host_elements_beside, rates.dram_bytes));
}

}  // namespace longhaul
