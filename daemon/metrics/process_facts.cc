#include "daemon/metrics/process_facts.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace preprocd {

namespace {

void ReadStatus(ProcessFacts& facts) {
  std::ifstream status("/proc/self/status");
  std::string key;
  while (status >> key) {
    if (key == "VmRSS:") {
      int64_t kib = 0;
      status >> kib;
      facts.resident_bytes = kib * 1024;
    } else if (key == "Threads:") {
      status >> facts.threads;
    }
    std::string rest;
    std::getline(status, rest);
  }
}

}  // namespace

ProcessFacts ReadProcessFacts() {
  ProcessFacts facts;
  // Closed again before descriptors are counted.
  ReadStatus(facts);
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end; entry.increment(error)) {
    ++facts.open_fds;
  }
  // The listing itself holds one descriptor open.
  if (facts.open_fds > 0) --facts.open_fds;
  return facts;
}

}  // namespace preprocd
