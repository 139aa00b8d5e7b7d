# Common style of all plots; the data and the plot command follow. The colours (plot.c) are Okabe
# and Ito's hues, which colour-blind readers can tell apart, made to stand on white and on black;
# the page turns black into its own text colour.
set encoding utf8
set datafile missing "NaN"
set border 3 lw 0.8
set tics nomirror out scale 0.6
set grid lw 0.4 lc rgb "#9a9a9a" dt (2, 4)
set key outside top center horizontal Left reverse samplen 2.5 spacing 1.1 noenhanced
set offsets 0, 0, 0, 0
