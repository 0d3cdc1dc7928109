# What Doxygen reads in place of a header: `//` comments as documentation. The header's first comment
# stays as it stands, with its pictures; others belong to what follows, or to the member before.
function plain(text) { # without what Doxygen would take for its own commands
  gsub(/[\\@#]/, "\\\\&", text)
  gsub(/<[a-z]/, "\\\\&", text)
  return text
}
NR == 1 && /^\/\// { print "/*! \\file"; print "\\verbatim"; in_first = 1 }
in_first && /^\/\// { sub(/^\/\/ ?/, ""); gsub(/\*\//, "* /"); print; next }
in_first { print "\\endverbatim */"; in_first = 0 }
/^[ \t]*\/\/ ---/ { print; next }
/^[ \t]*\/\// { at = index($0, "//"); print substr($0, 1, at - 1) "///" plain(substr($0, at + 2)); next }
/[;,({]  \/\/ / { at = match($0, /  \/\/ /); print substr($0, 1, at) " ///< " plain(substr($0, at + 5)); next }
{ print }
