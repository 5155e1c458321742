// For LD_PRELOAD: a file system that cannot sync folders, as SMB and shared folders of virtual
// machines. With the variable NO_FILE_LOCKS it has no file locks either, as Lustre without flock.
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

extern "C" int fsync(int file) {
  struct stat info;
  if (fstat(file, &info) == 0 && S_ISDIR(info.st_mode)) {
    errno = EINVAL;
    return -1;
  }
  static const auto real = reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, "fsync"));
  return real(file);
}

extern "C" int flock(int file, int operation) {
  if (getenv("NO_FILE_LOCKS") != nullptr) {
    errno = ENOSYS;
    return -1;
  }
  static const auto real = reinterpret_cast<int (*)(int, int)>(dlsym(RTLD_NEXT, "flock"));
  return real(file, operation);
}
