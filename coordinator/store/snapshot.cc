#include "coordinator/store/snapshot.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/io/digest.h"
#include "common/io/file_util.h"
#include "common/wire/proto_values.h"
#include "coordinator/store/envelope.h"
#include "coordinator/store/paced_write.h"
#include "longhaul/store/v1/records.pb.h"

namespace longhaul {
namespace {

constexpr absl::string_view kSnapshotMagic = "LHSNAPS2";
constexpr int64_t kSnapshotHeaderBytes = 4096;
// Each chunk is hashed and then written while it is still in the cache.
constexpr int64_t kChunkElements = 1 << 20;

std::string EncodeHeader(const store::v1::SnapshotHead& head) {
  std::string bytes = WithEnvelope(kSnapshotMagic, head.SerializeAsString());
  LH_CHECK(bytes.size() <= kSnapshotHeaderBytes, "a snapshot's header");
  bytes.resize(kSnapshotHeaderBytes, '\0');
  return bytes;
}

absl::StatusOr<store::v1::SnapshotHead> ReadHeader(const File& file, const std::string& path) {
  std::string bytes(kSnapshotHeaderBytes, '\0');
  LH_ASSIGN_OR_RETURN(const int64_t read, file.ReadAt(0, absl::MakeSpan(bytes)));
  LH_ASSIGN_OR_RETURN(const absl::string_view message,
                      OpenEnvelope(kSnapshotMagic, absl::string_view(bytes).substr(0, read), path));
  store::v1::SnapshotHead head;
  if (head.ParseFromArray(message.data(), static_cast<int>(message.size()))) return head;
  return absl::DataLossError(absl::StrCat(path, " is damaged at byte 12: it does not decode"));
}

absl::StatusOr<Digest128> WriteArray(File& file, int64_t offset, absl::Span<const float> values) {
  Digester digester;
  while (!values.empty()) {
    const auto chunk = values.subspan(0, kChunkElements);
    digester.Update(chunk);
    LH_RETURN_IF_ERROR(WritePaced(file, offset, BytesOf(chunk)));
    offset += chunk.size() * sizeof(float);
    values.remove_prefix(chunk.size());
  }
  return digester.Value();
}

absl::StatusOr<bool> ReadArray(const File& file, int64_t offset, const Digest128& expected,
                               FloatArray* values) {
  char* const bytes = reinterpret_cast<char*>(values->data());
  LH_RETURN_IF_ERROR(file.ReadExactly(offset, {bytes, values->size() * sizeof(float)}));
  Digester digester;
  digester.Update(absl::MakeConstSpan(*values));
  return digester.Value() == expected;
}

std::string NameOf(int fragment, int64_t version) {
  return absl::StrFormat("fragment-%05d-%010d.snap", fragment, version);
}

std::optional<SnapshotFile> ParseName(const std::string& dir, const std::string& name) {
  absl::string_view rest = name;
  SnapshotFile file;
  if (!absl::ConsumePrefix(&rest, "fragment-") || !absl::ConsumeSuffix(&rest, ".snap")) {
    return std::nullopt;
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(rest, '-');
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &file.fragment) ||
      !absl::SimpleAtoi(parts[1], &file.version) || name != NameOf(file.fragment, file.version)) {
    return std::nullopt;
  }
  file.path = JoinPath(dir, name);
  return file;
}

}  // namespace

absl::StatusOr<SnapshotList> ListSnapshots(FileSystem& fs, const std::string& dir) {
  LH_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs.List(dir));
  SnapshotList list;
  for (const std::string& name : names) {
    const std::string path = JoinPath(dir, name);
    if (absl::EndsWith(name, ".tmp")) list.temporary.push_back(path);
    std::optional<SnapshotFile> file = ParseName(dir, name);
    if (!file.has_value()) continue;
    LH_ASSIGN_OR_RETURN(const std::unique_ptr<File> opened, fs.Open(path));
    const absl::StatusOr<store::v1::SnapshotHead> head = ReadHeader(*opened, path);
    if (absl::IsDataLoss(head.status())) {
      list.damaged.push_back({path, head.status()});
      continue;
    }
    LH_RETURN_IF_ERROR(head.status());
    file->commit_sequence = head->commit_sequence();
    list.files.push_back(*std::move(file));
  }
  std::sort(list.files.begin(), list.files.end(), [](const SnapshotFile& a, const SnapshotFile& b) {
    return a.fragment != b.fragment ? a.fragment < b.fragment : a.version < b.version;
  });
  return list;
}

absl::StatusOr<SnapshotFile> WriteSnapshot(FileSystem& fs, const std::string& dir, int fragment,
                                           const FragmentState& state) {
  const SnapshotFile snapshot = {fragment, state.version,
                                 JoinPath(dir, NameOf(fragment, state.version)),
                                 state.commit_sequence};
  const std::string temporary = snapshot.path + ".tmp";
  const auto write = [&]() -> absl::Status {
    LH_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs.Create(temporary));
    store::v1::SnapshotHead head;
    head.set_fragment(fragment);
    head.set_elements(state.elements());
    head.set_version(state.version);
    head.set_commit_sequence(state.commit_sequence);
    int64_t offset = kSnapshotHeaderBytes;
    for (const auto& [values, proto] : {std::pair(&state.theta, head.mutable_parameters()),
                                        std::pair(&state.momentum, head.mutable_momentum()),
                                        std::pair(&state.error, head.mutable_error())}) {
      LH_ASSIGN_OR_RETURN(const Digest128 digest, WriteArray(*file, offset, *values));
      *proto = ToProto(digest);
      offset += state.elements() * sizeof(float);
    }
    LH_RETURN_IF_ERROR(file->WriteAt(0, EncodeHeader(head)));
    LH_RETURN_IF_ERROR(file->SyncData());
    LH_RETURN_IF_ERROR(fs.Rename(temporary, snapshot.path));
    return fs.SyncDir(dir);
  };
  if (absl::Status written = write(); !written.ok()) {
    // Gives the space back. If this fails, recovery removes the file.
    (void)fs.Remove(temporary);
    return written;
  }
  return snapshot;
}

absl::Status ReadSnapshot(FileSystem& fs, const SnapshotFile& snapshot, FragmentState* state) {
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs.Open(snapshot.path));
  return ReadSnapshot(*file, snapshot, state);
}

absl::Status ReadSnapshot(const File& file, const SnapshotFile& snapshot, FragmentState* state) {
  LH_ASSIGN_OR_RETURN(const store::v1::SnapshotHead head, ReadHeader(file, snapshot.path));
  const auto damaged = [&](int64_t offset, absl::string_view what) {
    return absl::DataLossError(
        absl::StrCat(snapshot.path, " is damaged at byte ", offset, ": ", what));
  };
  if (head.fragment() != snapshot.fragment || head.version() != snapshot.version ||
      head.elements() != state->elements()) {
    return damaged(0, "it holds another fragment or version than its name says");
  }
  const int64_t array_bytes = state->elements() * sizeof(float);
  LH_ASSIGN_OR_RETURN(const int64_t size, file.Size());
  if (size < kSnapshotHeaderBytes + 3 * array_bytes) {
    return damaged(
        size, absl::StrCat("it ends there instead of at ", kSnapshotHeaderBytes + 3 * array_bytes));
  }
  int64_t offset = kSnapshotHeaderBytes;
  for (const auto& [values, proto] :
       {std::pair(&state->theta, &head.parameters()), std::pair(&state->momentum, &head.momentum()),
        std::pair(&state->error, &head.error())}) {
    LH_ASSIGN_OR_RETURN(const bool good, ReadArray(file, offset, DigestFromProto(*proto), values));
    if (!good) {
      return damaged(offset,
                     absl::StrCat("the digest of the next ", array_bytes, " bytes does not match"));
    }
    offset += array_bytes;
  }
  state->version = head.version();
  state->commit_sequence = head.commit_sequence();
  state->digest = DigestFromProto(head.parameters());
  return absl::OkStatus();
}

}  // namespace longhaul
