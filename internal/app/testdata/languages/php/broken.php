<?php
echo "hello"
echo "again";
