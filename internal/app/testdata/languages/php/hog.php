<?php
$all = [];
while (true) {
    $all[] = str_repeat("a", 1000000);
}
