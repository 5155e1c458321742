// Files of inner state.
//   input: u8: 2: a whole file; 1: a header's JSON and tensors' bytes; 0: the same, with its
//   digests made right, so that what they guard is reached
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/safetensors/safetensors_header.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker/state/state_file.h"

namespace longhaul::fuzz::state_file_fuzz {
namespace {

std::string WithLength(absl::string_view json, absl::string_view data) {
  const uint64_t size = json.size();
  return absl::StrCat(absl::string_view(reinterpret_cast<const char*>(&size), 8), json, data);
}

// Its header's last brace ends the JSON.
std::string StateBytesOf(FuzzInput& input) {
  const uint8_t form = input.Byte();
  const std::string rest(input.Rest());
  if (form >= 2) return rest;
  const size_t end = std::min(rest.rfind('}') + 1, rest.size());
  std::string json = rest.substr(0, end);
  const std::string data = rest.substr(end);
  if (form == 0) {
    auto header = ParseSafetensorsHeader(json, static_cast<int64_t>(data.size()));
    if (header.ok()) {
      SignStateHeader(*header, [&](size_t index) {
        const StoredTensor& tensor = header->tensors[index];
        return DigestOf(absl::string_view(data).substr(tensor.offset, tensor.bytes()));
      });
      json = WriteSafetensorsHeader(*header);
    }
  }
  return WithLength(json, data);
}

void CheckStateFile(const StateFile& file, bool signed_here) {
  const StateTag& tag = file.tag();
  LH_CHECK(tag.step >= 0 && tag.rank >= 0 && tag.rank < tag.ranks, "a rank of a pool");
  for (size_t i = 0; i < file.slots().size(); ++i) {
    const InnerStateSlot& slot = file.slots()[i];
    LH_CHECK(slot.unit >= 0 && slot.first >= 0 && slot.count >= 0, "slots are ranges of a unit");
    const absl::Status verified = file.Verify(i);
    CheckDocumented(verified, {absl::StatusCode::kDataLoss});
    LH_CHECK(!signed_here || verified.ok(), "a digest that was made right is right");
    std::vector<float> values(slot.count);
    file.Read(i, 0, absl::MakeSpan(values)).IgnoreError();
    if (slot.count > 1) file.Read(i, 1, absl::MakeSpan(values).subspan(1)).IgnoreError();
  }
}

}  // namespace

std::vector<Seed> Seeds() {
  const std::string metadata =
      R"("format":"longhaul-inner-state","header":"","job":"j","layout":"l","life":"7","pool":"p",)"
      R"("phase/updates":"5","rank":"0","ranks":"2","spec":"s","step":"9","version":"1")";
  const auto file = [&](const std::string& fields, const std::string& tensors) {
    return absl::StrCat("{\"__metadata__\":{", fields, "}", tensors, "}");
  };
  const std::string moment = R"(,"moment/0/128":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  std::string later = metadata;
  later.replace(later.rfind("\"1\""), 3, "\"2\"");
  return {{"whole", FuzzWriter().Byte(0).Bytes(file(metadata, moment)).Bytes("01234567").Take()},
          {"unsigned", FuzzWriter().Byte(1).Bytes(file(metadata, moment)).Bytes("01234567").Take()},
          {"empty", FuzzWriter().Byte(0).Bytes(file(metadata, "")).Take()},
          {"later", FuzzWriter().Byte(0).Bytes(file(later, "")).Take()},
          {"other", FuzzWriter().Byte(0).Bytes("{}").Take()},
          {"given", FuzzWriter().Byte(2).Put(uint64_t{2}).Bytes("{}").Take()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const bool is_signed = size > 0 && data[0] == 0;
  const std::string bytes = StateBytesOf(input);
  const int file = memfd_create("state", MFD_CLOEXEC);
  LH_CHECK(
      file >= 0 && write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
      "memory takes a file");
  const absl::Cleanup close_file = [file] { close(file); };
  const auto opened = StateFile::Open(absl::StrCat("/proc/self/fd/", file));
  CheckDocumented(opened.status(),
                  {absl::StatusCode::kDataLoss, absl::StatusCode::kFailedPrecondition});
  if (opened.ok()) CheckStateFile(*opened, is_signed);
  return 0;
}

}  // namespace longhaul::fuzz::state_file_fuzz
