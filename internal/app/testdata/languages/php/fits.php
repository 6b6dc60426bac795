<?php
$all = [];
for ($i = 0; $i < 160; $i++) {
    $all[] = str_repeat(chr($i), 1 << 20);
}
echo ord($all[7][7]) === 7 ? "hello\n" : "lost\n";
