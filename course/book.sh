# shellcheck shell=sh disable=SC2034,SC2154
# `./yotta book`: the course as a site. Read by `yotta`.

book_help() {
  cat <<'END'
Usage: ./yotta book [--build DIR] [--json]

Makes the book, a site of the lessons, exercises, notebooks and documents, and of the library's pages with their names
linked, and opens it in a browser from this machine. Its moving figures run the library's own code.
  --build DIR   only make it, in DIR: files that any web server can serve
  --json        only make it; print where it lies as JSON
END
}

# Without these there is no site.
book_misses() {
  have mkdocs || printf ' mkdocs'
  [ -d /usr/share/mkdocs/themes/material ] || printf ' mkdocs-material'
  [ -d /usr/share/nodejs/katex ] || printf ' katex'
  have node || printf ' nodejs'
  have ctags || printf ' universal-ctags'
}

# Without these the site's figures stand still.
wasm_misses() {
  have clang++-19 || printf ' clang-19'
  have wasm-ld-19 || printf ' lld-19'
  for each in wasi-libc libc++-19-dev-wasm32 libc++abi-19-dev-wasm32 libclang-rt-19-dev-wasm32; do
    installed "$each" || printf ' %s' "$each"
  done
}

# make_book: the site in build/book/site.
make_book() {
  [ -d "$root/course/book" ] || {
    say "yotta: the book is made in the course's own tree; this one was handed out, without what the book shows"
    return 1
  }
  lacks=$(book_misses)
  [ -z "$lacks" ] || {
    say "yotta: the book is made with packages that are not installed:$lacks (Debian: apt-get install$lacks)"
    return 1
  }
  lacks=$(wasm_misses)
  [ -z "$lacks" ] || say "yotta: the book's figures will stand still; to move they need$lacks"
  # Packages that came after the build was prepared are looked for again.
  [ -n "$lacks" ] || ! grep -q "^YOTTA_WASM.*NOTFOUND" "$root/build/release/CMakeCache.txt" 2>/dev/null || changed=yes
  compile release runner book_figures book_runs book_wasm || return 1
  say "yotta: making the book; a minute"
  PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$root/course/book/book.py" --build "$root/build/book" \
    --programs "$root/build/release/course/book" || return 1
}

# serve_book: to this machine alone, at a port that is free, until Ctrl-C.
serve_book() {
  /usr/bin/python3 - "$root/build/book/site" <<'END'
import functools, http.server, sys, webbrowser
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
handler.func.log_message = lambda *_: None
with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
    address = f"http://127.0.0.1:{server.server_port}/"
    print(f"The book: {address}   (Ctrl-C ends it)", flush=True)
    webbrowser.open(address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print()
END
}

book() {
  case "$#/${1:-}" in
    0/ | 1/--json | 2/--build) ;;
    1/--help | 1/-h)
      book_help
      return 0
      ;;
    *)
      book_help >&2
      return 2
      ;;
  esac
  make_book || return 1
  case ${1:-} in
    --build)
      mkdir -p "$2" && cp -R "$root/build/book/site/." "$2" || return 1
      echo "$2/index.html"
      ;;
    --json) printf '{"index": "%s"}\n' "$root/build/book/site/index.html" ;;
    *) serve_book ;;
  esac
}

# Without these the site is made and its files are tested, and nothing is seen in a browser.
browser_misses() {
  have chromium || printf ' chromium'
  have chromedriver || printf ' chromium-driver'
  [ -d /usr/lib/python3/dist-packages/selenium ] || printf ' python3-selenium'
}

# book_test [--long]: the book's own tier of `./yotta test`. Ends with its counts.
book_test() {
  make_book || {
    echo "0 passed, 1 failed, 0 skipped"
    return 1
  }
  PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$root/tests/book/check_site.py" "$root/build/book/site" \
    "$root/build/release/course/book" "$@"
}
