#!/bin/sh
# Called by `make install` without DESTDIR: after_install.sh LIBDIR SONAME.
#
# Makes the dynamic linker find libmblob in LIBDIR where that folder is one of the system and root installs. Elsewhere
# mblob.pc gets the folder as a run path, and a text says what other programs need. A second text says what pkg-config needs.
libdir=$1 soname=$2
PATH=$PATH:/usr/sbin:/sbin

# Folders that the dynamic linker of the library's C library looks into, a line each.
if grep -q 'libc\.so\.6' "$libdir/$soname"; then
  folders=$(ldconfig -NXv 2>/dev/null | sed -n 's/^\(\/[^:]*\):.*/\1/p')
  is_cached=yes
else
  folders=$(cat /etc/ld-musl-*.path 2>/dev/null || echo /lib:/usr/local/lib:/usr/lib)
  folders=$(echo "$folders" | tr ':' '\n')
  is_cached=
fi
is_searched=
while IFS= read -r folder; do
  if [ "$folder" -ef "$libdir" ]; then is_searched=yes; fi
done <<END
$folders
END
if [ "$is_searched" ] && [ "$is_cached" ]; then
  if [ "$(id -u)" = 0 ]; then ldconfig; fi
  ldconfig -p | grep -q "[[:space:]]$soname " || is_searched=
fi
if [ -z "$is_searched" ]; then
  pc=$libdir/pkgconfig/mblob.pc
  sed 's|^Libs: -L${libdir} -l|Libs: -L${libdir} -Wl,-rpath,${libdir} -l|' "$pc" >"$pc.new" && mv "$pc.new" "$pc"
  echo "The dynamic linker does not look into $libdir. Programs linked by pkg-config find libmblob there; others need"
  echo "  export LD_LIBRARY_PATH=$libdir"
fi
pkg_config=${PKG_CONFIG:-pkg-config}
if command -v "$pkg_config" >/dev/null; then
  found=$("$pkg_config" --variable=pcfiledir mblob 2>/dev/null)
  if ! [ "$found" -ef "$libdir/pkgconfig" ]; then
    echo "pkg-config does not look into $libdir/pkgconfig. It needs"
    echo "  export PKG_CONFIG_PATH=$libdir/pkgconfig"
  fi
fi
