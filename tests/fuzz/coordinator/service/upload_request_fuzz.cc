// The files that a client announces, and what it sends of them. The coordinator is started anew now
// and then.
//   input: u8 1: the digest is made right | string PrepareUploadRequest |
//          for each call: u8 file | u8 (0: a restart; 1: at a wrong place; else at the right one) |
//          string data
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/io/file_util.h"
#include "common/io/sha256.h"
#include "coordinator/service/upload_request.h"
#include "coordinator/store/uploads.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/quiet_protobuf.h"
#include "tests/testing/memory_filesystem.h"

namespace longhaul::fuzz::upload_request_fuzz {
namespace {

constexpr char kData[] = "data";
constexpr int64_t kBytesMax = 1 << 20;
constexpr int kCallsMax = 32;

std::vector<FolderFile> Model() {
  return {{"config.json", 2, Sha256Hex("{}")}, {"x", 3, Sha256Hex("abc")}};
}

std::string Announced(const std::vector<FolderFile>& files) {
  v1::PrepareUploadRequest request;
  for (const FolderFile& file : files) {
    v1::UploadedFile* announced = request.add_files();
    announced->set_name(file.name);
    announced->set_bytes(file.bytes);
    announced->set_sha256(file.sha256);
  }
  request.set_upload(DigestOfFiles(files));
  return request.SerializeAsString();
}

void CheckFiles(std::vector<FolderFile> files) {
  for (const FolderFile& file : files) {
    LH_CHECK(IsPlainFileName(file.name), "a name is plain");
    LH_CHECK(file.name.find('/') == std::string::npos && file.name[0] != '.', "no way out");
  }
  const auto parsed = ParseListOfFiles(ListOfFiles(files));
  std::sort(files.begin(), files.end(),
            [](const FolderFile& a, const FolderFile& b) { return a.name < b.name; });
  LH_CHECK(parsed.ok() && *parsed == files, "what was announced can be stored and read");
}

// The coordinator's side of one client.
class Server {
 public:
  explicit Server(std::vector<FolderFile> files)
      : files_(std::move(files)), upload_(DigestOfFiles(files_)) {
    LH_CHECK(fs_.CreateDir(kData).ok(), "memory takes a folder");
    Start();
  }

  void Start() {
    uploads_.reset();
    auto opened = Uploads::Open(
        &fs_, &clock_,
        {.data_dir = kData, .bytes_max = kBytesMax, .keep = absl::Hours(1), .free_min = 0});
    LH_CHECK(opened.ok(), "it starts with what it wrote");
    uploads_ = *std::move(opened);
  }

  absl::StatusOr<Uploads::Prepared> Prepare() {
    const auto prepared = uploads_->Prepare(files_);
    CheckDocumented(prepared.status(),
                    {absl::StatusCode::kFailedPrecondition, absl::StatusCode::kResourceExhausted});
    if (!prepared.ok()) return prepared;
    LH_CHECK(prepared->files.size() == files_.size(), "an answer for each file");
    for (size_t i = 0; i < files_.size(); ++i)
      LH_CHECK(prepared->files[i].bytes <= files_[i].bytes, "never more than announced");
    LH_CHECK(prepared->complete == uploads_->Find(upload_).has_value(), "whole is found");
    if (prepared->complete) CheckWhole();
    return prepared;
  }

  void Send(size_t index, int64_t offset, absl::string_view data) {
    const auto file = uploads_->Receive(upload_, files_[index].name, offset);
    CheckDocumented(file.status(), {absl::StatusCode::kNotFound, absl::StatusCode::kOutOfRange});
    if (!file.ok()) return;
    const absl::Status appended = (*file)->Append(data);
    CheckDocumented(appended, {absl::StatusCode::kInvalidArgument});
    const auto ended = (*file)->Finish();
    CheckDocumented(ended.status(), {absl::StatusCode::kDataLoss});
    LH_CHECK(!ended.ok() || !ended->complete || ended->file.verified, "whole is verified");
  }

  void CheckFolders() {
    const auto names = fs_.List(UploadsFolder(kData));
    for (const std::string& name : *names)
      LH_CHECK(name == upload_ || name == upload_ + ".partial", "a folder of this upload");
    LH_CHECK(fs_.List(kData)->size() == 1, "nothing beside the uploads");
  }

 private:
  void CheckWhole() {
    for (const FolderFile& file : files_) {
      const auto bytes =
          ReadFile(fs_, JoinPath(UploadFolder(kData, upload_), file.name), kBytesMax);
      LH_CHECK(bytes.ok() && Sha256Hex(*bytes) == file.sha256, "it is what was announced");
    }
  }

  const std::vector<FolderFile> files_;
  const std::string upload_;
  MemoryFileSystem fs_;
  ManualClock clock_{absl::FromUnixSeconds(1700000000)};
  std::unique_ptr<Uploads> uploads_;
};

void Run(FuzzInput& input, const std::vector<FolderFile>& files) {
  Server server(files);
  auto prepared = server.Prepare();
  if (!prepared.ok()) return;
  for (int call = 0; call < kCallsMax && !input.empty() && prepared.ok(); ++call) {
    const size_t index = input.Byte() % files.size();
    const uint8_t kind = input.Byte();
    const absl::string_view data = input.String();
    if (kind == 0) server.Start();
    server.Send(index, prepared->files[index].bytes + (kind == 1 ? 1 : 0), data);
    prepared = server.Prepare();
  }
  server.CheckFolders();
}

}  // namespace

std::vector<Seed> Seeds() {
  const std::string request = Announced(Model());

  FuzzWriter whole, broken;
  whole.Byte(0).String(request).Byte(1).Byte(2).String("abc").Byte(0).Byte(2).String("{}");
  broken.Byte(1).String(request).Byte(1).Byte(2).String("ab").Byte(1).Byte(0).String("d");
  broken.Byte(1).Byte(1).String("a").Byte(0).Byte(2).String("{}{}").Byte(1).Byte(2).String("abc");
  return {{"whole", whole.Take()}, {"broken", broken.Take()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const bool sealed = input.Flag();
  const std::string announced(input.String());
  v1::PrepareUploadRequest request;
  if (!request.ParseFromString(announced)) return 0;
  if (sealed) {
    std::vector<FolderFile> files;
    for (const v1::UploadedFile& file : request.files())
      files.push_back({file.name(), file.bytes(), file.sha256()});
    request.set_upload(DigestOfFiles(files));
  }
  const auto files = coordinator::AnnouncedFiles(request);
  CheckDocumented(files.status(), {absl::StatusCode::kInvalidArgument});
  if (!files.ok()) return 0;
  CheckFiles(*files);
  Run(input, *files);
  return 0;
}

}  // namespace longhaul::fuzz::upload_request_fuzz
