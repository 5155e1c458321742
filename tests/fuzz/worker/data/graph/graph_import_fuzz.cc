// Files that a user gives to `longhaul graph import`: .npy, CSV, compressed, or an array of .npz.
//   input: u8 what the file is for (0 to 3: edges, labels, features, the training nodes; 4: all of
//   them as .npz; 5, 6: validation pairs, their labels), then the file
#include <filesystem>
#include <fstream>

#include "common/graph/graph_folder.h"
#include "common/io/posix_filesystem.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/number_files.h"
#include "tests/testing/temp_dir.h"
#include "worker/data/graph/graph_import.h"

namespace longhaul::fuzz::graph_import_fuzz {
namespace {

using testing_support::Gzipped;
using testing_support::NpyBytes;
using testing_support::WriteBytes;
using testing_support::ZipFile;

}  // namespace

std::vector<Seed> Seeds() {
  ZipFile stored, deflated{.deflated = true};
  const std::string array =
      NpyBytes(NpyType::kInt64, {2, 3}, std::vector<int64_t>{0, 1, 2, 1, 2, 0});
  stored.Add("a.npy", array);
  deflated.Add("a.npy", array);
  return {{"csv", FuzzWriter().Byte(0).Bytes("0,1\n2,0\r\n1,2\n").Take()},
          {"spaces", FuzzWriter().Byte(0).Bytes("0 1\n2\t0\n").Take()},
          {"gzip", FuzzWriter().Byte(0).Bytes(Gzipped("0,1\n1,2\n")).Take()},
          {"columns", FuzzWriter().Byte(0).Bytes(array).Take()},
          {"labels", FuzzWriter().Byte(1).Bytes("0\n1.0\nnan\n").Take()},
          {"features", FuzzWriter().Byte(2).Bytes("0.5,1\n1e-3,2\n-1,3\n").Take()},
          {"mask", FuzzWriter()
                       .Byte(3)
                       .Bytes(NpyBytes(NpyType::kBool, {3}, std::vector<uint8_t>{1, 0, 1}))
                       .Take()},
          {"pairs", FuzzWriter().Byte(5).Bytes("0,1\n2,1\n").Take()},
          {"pair labels", FuzzWriter().Byte(6).Bytes("1\n0\n").Take()},
          {"stored", FuzzWriter().Byte(4).Bytes(stored.Take()).Take()},
          {"deflated", FuzzWriter().Byte(4).Bytes(deflated.Take()).Take()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const int what = input.Choice(0, 6);
  const TempDir dir;
  const auto fs = MakePosixFileSystem();
  const NumberFile given = {WriteBytes(dir.Join("given"), std::string(input.Rest())),
                            what == 4 ? "a" : ""};
  const auto text = [&](const char* name, const char* content) {
    return NumberFile{WriteBytes(dir.Join(name), content), ""};
  };
  GraphImport import;
  import.nodes = 3;
  import.edges = {what == 0 || what == 4 ? given : text("edges", "0,1\n")};
  import.features = what == 2 ? given : text("features", "1\n2\n3\n");
  import.labels = what == 1 ? given : text("labels", "0\n1\n0\n");
  import.train.nodes = what == 3 ? given : text("train", "0\n");
  if (what >= 5) {
    import.valid_pairs.pairs = what == 5 ? given : text("pairs", "1,0\n2,1\n");
    if (what == 6) import.valid_pairs.labels = given;
  }
  import.reverse_edges = true;
  import.memory_bytes = 1 << 10;
  import.out = dir.Join("out");
  const auto result = ImportGraph(*fs, import);
  // DATA_LOSS: an archive that claims more than the file has.
  CheckDocumented(result.status(), {absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound,
                                    absl::StatusCode::kDataLoss});
  LH_CHECK(result.ok() == std::filesystem::exists(import.out), "all or nothing");
  LH_CHECK(!std::filesystem::exists(import.out + ".tmp"), "nothing is left");
  if (result.ok())
    LH_CHECK(GraphFolder::Open(import.out).ok(), "what is imported keeps its promises");
  return 0;
}

}  // namespace longhaul::fuzz::graph_import_fuzz
