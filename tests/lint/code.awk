# Prints "file:line: code" for C files, without comments and the content of strings and characters.
FNR == 1 { in_comment = 0 }
{
    out = ""
    s = $0
    while (s != "") {
        if (in_comment) {
            i = index(s, "*/")
            if (i == 0) { s = ""; break }
            s = substr(s, i + 2)
            in_comment = 0
        } else if (match(s, /\/\*|\/\/|"|'/)) {
            t = substr(s, RSTART, RLENGTH)
            out = out substr(s, 1, RSTART - 1)
            s = substr(s, RSTART + RLENGTH)
            if (t == "/*") { in_comment = 1; out = out " "; continue }
            if (t == "//") { s = ""; break }
            while (s != "" && substr(s, 1, 1) != t)
                s = substr(s, substr(s, 1, 1) == "\\" ? 3 : 2)
            out = out t t
            s = substr(s, 2)
        } else {
            out = out s
            s = ""
        }
    }
    if (out ~ /[^ \t]/) print FILENAME ":" FNR ": " out
}
