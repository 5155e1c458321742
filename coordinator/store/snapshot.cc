#include "coordinator/store/snapshot.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/io/digest.h"
#include "common/io/file_util.h"
#include "coordinator/store/wire.h"

namespace longhaul {
namespace {

constexpr absl::string_view kMagic = "LHSNAPS1";
constexpr int64_t kHeaderBytes = 4096, kHeaderDigestOffset = 88;
// Written and synced in steps, so that the disk is never far behind and a commit's sync does not
// wait for all of it.
constexpr int64_t kChunkElements = 1 << 20, kChunksBetweenSyncs = 8;

struct Header {
  uint32_t fragment = 0;
  uint64_t elements = 0, version = 0, commit_sequence = 0;
  Digest128 theta, momentum, error;
};

std::string EncodeHeader(const Header& header) {
  WireWriter out;
  out.Bytes(kMagic);
  out.U32(0);
  out.U32(header.fragment);
  out.U64(header.elements);
  out.U64(header.version);
  out.U64(header.commit_sequence);
  out.Digest(header.theta);
  out.Digest(header.momentum);
  out.Digest(header.error);
  out.Digest(DigestOf(out.bytes()));
  std::string bytes = out.Take();
  bytes.resize(kHeaderBytes, '\0');
  return bytes;
}

std::optional<Header> DecodeHeader(absl::string_view bytes) {
  WireReader in(bytes);
  const absl::string_view magic = in.Bytes(kMagic.size());
  Header header;
  in.U32();
  header.fragment = in.U32();
  header.elements = in.U64();
  header.version = in.U64();
  header.commit_sequence = in.U64();
  header.theta = in.Digest();
  header.momentum = in.Digest();
  header.error = in.Digest();
  const Digest128 digest = in.Digest();
  if (!in.ok() || magic != kMagic) return std::nullopt;
  if (digest != DigestOf(bytes.substr(0, kHeaderDigestOffset))) return std::nullopt;
  return header;
}

// Nothing if it is damaged.
absl::StatusOr<std::optional<Header>> ReadHeader(const File& file) {
  std::string bytes(kHeaderBytes, '\0');
  LH_ASSIGN_OR_RETURN(const int64_t read, file.ReadAt(0, absl::MakeSpan(bytes)));
  return DecodeHeader(absl::string_view(bytes).substr(0, read));
}

absl::StatusOr<Digest128> WriteArray(File& file, int64_t offset, absl::Span<const float> values) {
  Digester digester;
  int64_t chunks = 0;
  while (!values.empty()) {
    const auto chunk = values.subspan(0, kChunkElements);
    digester.Update(chunk);
    LH_RETURN_IF_ERROR(file.WriteAt(offset, BytesOf(chunk)));
    if (++chunks % kChunksBetweenSyncs == 0) LH_RETURN_IF_ERROR(file.SyncData());
    offset += chunk.size() * sizeof(float);
    values.remove_prefix(chunk.size());
  }
  return digester.Value();
}

absl::StatusOr<bool> ReadArray(const File& file, int64_t offset, const Digest128& expected,
                               std::vector<float>* values) {
  char* const bytes = reinterpret_cast<char*>(values->data());
  LH_RETURN_IF_ERROR(file.ReadExactly(offset, {bytes, values->size() * sizeof(float)}));
  Digester digester;
  digester.Update(absl::MakeConstSpan(*values));
  return digester.Value() == expected;
}

std::optional<SnapshotFile> ParseName(const std::string& dir, const std::string& name) {
  absl::string_view rest = name;
  SnapshotFile file;
  if (!absl::ConsumePrefix(&rest, "fragment-") || !absl::ConsumeSuffix(&rest, ".snap")) {
    return std::nullopt;
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(rest, '-');
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &file.fragment) ||
      !absl::SimpleAtoi(parts[1], &file.version)) {
    return std::nullopt;
  }
  file.path = JoinPath(dir, name);
  return file;
}

}  // namespace

absl::StatusOr<std::vector<SnapshotFile>> ListSnapshots(FileSystem& fs, const std::string& dir) {
  LH_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs.List(dir));
  std::vector<SnapshotFile> files;
  for (const std::string& name : names) {
    if (absl::EndsWith(name, ".tmp")) LH_RETURN_IF_ERROR(fs.Remove(JoinPath(dir, name)));
    std::optional<SnapshotFile> file = ParseName(dir, name);
    if (!file.has_value()) continue;
    LH_ASSIGN_OR_RETURN(const std::unique_ptr<File> opened, fs.Open(file->path));
    LH_ASSIGN_OR_RETURN(const std::optional<Header> header, ReadHeader(*opened));
    if (!header.has_value()) continue;
    file->commit_sequence = header->commit_sequence;
    files.push_back(*std::move(file));
  }
  std::sort(files.begin(), files.end(), [](const SnapshotFile& a, const SnapshotFile& b) {
    return a.fragment != b.fragment ? a.fragment < b.fragment : a.version < b.version;
  });
  return files;
}

absl::StatusOr<SnapshotFile> WriteSnapshot(FileSystem& fs, const std::string& dir, int fragment,
                                           const FragmentState& state) {
  const std::string name = absl::StrFormat("fragment-%05d-%010d.snap", fragment, state.version);
  const SnapshotFile snapshot = {fragment, state.version, JoinPath(dir, name),
                                 state.commit_sequence};
  const std::string temporary = snapshot.path + ".tmp";
  const auto write = [&]() -> absl::Status {
    LH_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs.Create(temporary));
    const int64_t array_bytes = state.elements() * sizeof(float);
    Header header = {static_cast<uint32_t>(fragment), static_cast<uint64_t>(state.elements()),
                     static_cast<uint64_t>(state.version), state.commit_sequence};
    LH_ASSIGN_OR_RETURN(header.theta, WriteArray(*file, kHeaderBytes, state.theta));
    LH_ASSIGN_OR_RETURN(header.momentum,
                        WriteArray(*file, kHeaderBytes + array_bytes, state.momentum));
    LH_ASSIGN_OR_RETURN(header.error,
                        WriteArray(*file, kHeaderBytes + 2 * array_bytes, state.error));
    LH_RETURN_IF_ERROR(file->WriteAt(0, EncodeHeader(header)));
    LH_RETURN_IF_ERROR(file->SyncData());
    LH_RETURN_IF_ERROR(fs.Rename(temporary, snapshot.path));
    return fs.SyncDir(dir);
  };
  if (absl::Status written = write(); !written.ok()) {
    (void)fs.Remove(temporary);  // gives the space back; recovery removes it otherwise
    return written;
  }
  return snapshot;
}

absl::Status ReadSnapshot(FileSystem& fs, const SnapshotFile& snapshot, FragmentState* state) {
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs.Open(snapshot.path));
  LH_ASSIGN_OR_RETURN(const std::optional<Header> header, ReadHeader(*file));
  const auto damaged = [&](absl::string_view what) {
    return absl::DataLossError(absl::StrCat(snapshot.path, " is damaged: ", what));
  };
  if (!header.has_value()) return damaged("header");
  if (header->fragment != static_cast<uint32_t>(snapshot.fragment) ||
      header->version != static_cast<uint64_t>(snapshot.version) ||
      header->elements != static_cast<uint64_t>(state->elements())) {
    return damaged("it holds another fragment");
  }
  const int64_t array_bytes = state->elements() * sizeof(float);
  int64_t offset = kHeaderBytes;
  const std::pair<std::vector<float>*, const Digest128*> arrays[] = {
      {&state->theta, &header->theta},
      {&state->momentum, &header->momentum},
      {&state->error, &header->error}};
  for (const auto& [values, digest] : arrays) {
    LH_ASSIGN_OR_RETURN(const bool good, ReadArray(*file, offset, *digest, values));
    if (!good) return damaged(absl::StrCat("bytes from ", offset));
    offset += array_bytes;
  }
  state->version = header->version;
  state->commit_sequence = header->commit_sequence;
  state->digest = header->theta;
  return absl::OkStatus();
}

}  // namespace longhaul
