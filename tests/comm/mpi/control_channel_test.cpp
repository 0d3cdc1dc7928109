// Every process runs every case; mpirun starts 1 to 4 of them.
#include "yotta/comm/mpi/control_channel.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("letters arrive, in the order of their sender, and close() finds them all") {
  MpiMail mail(MPI_COMM_WORLD, Where::current());
  for (int to = 0; to < mail.size(); ++to) {
    if (to == mail.rank()) continue;
    mail.send(to, 3, "first");
    mail.send(to, 4, "");
    mail.send(to, 5, std::string(100000, 'x'));
  }
  std::vector<int> next(static_cast<size_t>(mail.size()), 3);
  for (int left = mail.size() - 1; left > 0; --left) {  // the last of each is left to close()
    for (int letters = 0; letters < 2;) {
      MpiMail::Letter letter;
      if (!mail.take(letter)) continue;
      CHECK(letter.kind == next[static_cast<size_t>(letter.from)]++);
      if (letter.kind == 3) CHECK(letter.text == "first");
      if (letter.kind == 5) CHECK(letter.text.size() == 100000);
      ++letters;
    }
  }
  while (!mail.close()) continue;
  mail.send(0, 9, "too late");
  CHECK(mail.close());
}
