// The terminal of `uroce top`.
#include "apps/stat/top.h"

#include <curses.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "apps/stat/top_model.h"

namespace uroce::statistics {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kEscapeKey = 27;
constexpr int kKeyWaitMs = 50;

/// The terminal as the program wants it, and at the end as it was.
class Terminal {
 public:
  Terminal() : screen_(newterm(nullptr, stdout, stdin)) {
    if (screen_ == nullptr) return;
    set_term(screen_);
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    set_escdelay(kKeyWaitMs);
    curs_set(0);
    timeout(kKeyWaitMs);
  }
  ~Terminal() {
    if (screen_ == nullptr) return;
    endwin();
    delscreen(screen_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  [[nodiscard]] bool ok() const { return screen_ != nullptr; }

 private:
  SCREEN* screen_;
};

void draw(TopModel& model) {
  const TopModel::Screen screen = model.screen(static_cast<size_t>(COLS), static_cast<size_t>(LINES));
  erase();
  for (size_t i = 0; i < screen.lines.size(); ++i) {
    const bool stands_out = i == screen.selected || i == screen.heading;
    if (stands_out) attron(i == screen.heading ? A_BOLD | A_UNDERLINE : A_REVERSE);
    mvaddnstr(static_cast<int>(i), 0, screen.lines[i].c_str(), COLS);
    attrset(A_NORMAL);
  }
  refresh();
}

/// False: the user leaves.
bool press(int key, TopModel& model) {
  switch (key) {
    case KEY_UP:
      model.press(TopKey::kUp);
      return true;
    case KEY_DOWN:
      model.press(TopKey::kDown);
      return true;
    case KEY_PPAGE:
      model.press(TopKey::kPageUp);
      return true;
    case KEY_NPAGE:
      model.press(TopKey::kPageDown);
      return true;
    case KEY_HOME:
      model.press(TopKey::kHome);
      return true;
    case KEY_ENTER:
    case '\n':
    case '\r':
      model.press(TopKey::kEnter);
      return true;
    case kEscapeKey:
      model.press(TopKey::kEscape);
      return true;
    case KEY_BACKSPACE:
    case '\b':
    case 127:
      model.press(TopKey::kBackspace);
      return true;
    default:
      return key < ' ' || key > '~' || model.press(static_cast<char>(key));
  }
}

}  // namespace

int watch_in_terminal(const Selection& selection) {
  if (isatty(STDOUT_FILENO) != 1 || isatty(STDIN_FILENO) != 1) {
    fmt::print(stderr, "uroce top: this is no terminal; 'uroce stat --watch' writes to anything\n");
    return 1;
  }
  const Terminal terminal;
  if (!terminal.ok()) {
    fmt::print(stderr, "uroce top: the terminal (TERM) is not known here\n");
    return 1;
  }
  TopModel model;
  model.update(read_statistics(selection));
  for (Clock::time_point next{};;) {
    if (const Clock::time_point now = Clock::now(); now >= next) {
      model.update(read_statistics(selection));
      next = now +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(model.interval_s()));
      draw(model);
    }
    const int key = getch();
    if (key == ERR) continue;
    if (!press(key, model)) return 0;
    draw(model);
  }
}

}  // namespace uroce::statistics
